"""if, conditional expressions, boolean logic and the walrus."""

from programs import error_of


def if_elif_else():
    def grade(n):
        if n >= 90:
            return "A"
        elif n >= 80:
            return "B"
        elif n < 0:
            pass
        else:
            return "F"
        return "?"

    return [grade(n) for n in (95, 85, 10, -1)]


def conditional_expressions():
    def sign(n):
        return "positive" if n > 0 else "zero" if n == 0 else "negative"

    def choose(flag):
        return ([1] if flag else [2])[0] + (3 if not flag else 4)

    return [sign(n) for n in (5, 0, -5)], choose(True), choose(False), (lambda x: x if x else "empty")("")


def only_the_chosen_branch_is_evaluated():
    def say(x):
        print(x)
        return x

    say("then") if say(1) else say("else")
    say("then") if say(0) else say("else")
    say(0) and say("no")
    say(1) or say("no")
    say(0) or say("") or say("last")
    return say(1) and say(0) and say("never")


def boolean_operators_as_conditions():
    def f(a, b, c):
        if a and b or not c:
            return 1
        if not (a or b) and c:
            return 2
        if a or (b and not c):
            return 3
        return 4

    return [f(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]


def boolean_operators_as_values():
    a, b, c = 0, [], "x"
    return [
        a or b,
        b or a,
        a and c,
        c and a,
        a or b or c,
        c and a or b,
        not a and c,
        (a or c) and (b or "y"),
        None and 1,
        "" or None,
    ]


def comparisons_with_none():
    def f(x):
        if x is None:
            return "none"
        if x is not None and x != 0:
            return "something"
        return "zero"

    y = None
    z = 5 if y is None else 6
    w = y if y is not None else "default"
    return f(None), f(0), f(1), z, w, None is None, y == None


def identity_and_containment_in_conditions():
    items = ["a", None]
    results = []
    for x in ("a", "b", None):
        if x in items:
            results.append("in")
        if x not in items:
            results.append("not in")
        if x is items[0] or x is not items[1]:
            results.append("some")
    return results


def chained_comparisons_in_conditions():
    def f(x):
        if 0 < x < 10:
            return "small"
        if not 10 <= x <= 20:
            return "outside"
        while 10 <= x < 15:
            x += 1
        return x

    return [f(x) for x in (5, 25, 12, 18, -1)], 1 < 2 > 1 != 3, (1 < 2) is True, 3 > 2 == True


def chained_comparisons_stop_early():
    def say(x):
        print(x)
        return x

    if say(1) > say(2) > say(3):
        pass
    result = say(3) > say(2) > say(1)
    return result, error_of(lambda: 1 < 2 < "a")


def walrus_in_conditions():
    def f(text):
        if (n := len(text)) > 3:
            return f"long {n}"
        elif n and (first := text[0]) in "abc":
            return f"{first} of {n}"
        return n

    return f("hello"), f("ab"), f("xy"), f("")


def walrus_in_loops_and_comprehensions():
    data = [1, 2, 3, 4, 5, 6]
    it = iter(data)
    pairs = []
    while (a := next(it, None)) is not None and (b := next(it, None)) is not None:
        pairs.append((a, b))
    squares = [s for x in data if (s := x * x) > 10]
    return pairs, squares, s, a


def walrus_in_arguments_and_subscripts():
    def f(*args, **kwargs):
        return args, kwargs

    result = f(x := 1, (y := 2), k=(z := 3))
    items = [10, 20, 30]
    return result, (x, y, z), items[i := 1], i, f"{(w := 5)} {w}", [q := 7, q**2]


def walrus_with_globals_and_nonlocals():
    x = 1

    def inner():
        nonlocal x
        return (x := x + 10) * 2

    return inner(), x


def truth_of_own_objects_in_conditions():
    class T:
        def __init__(self, value):
            self.value = value

        def __bool__(self):
            print("asked", self.value)
            return self.value

    t, f = T(True), T(False)
    results = []
    if t and not f:
        results.append(1)
    if f or t:
        results.append(2)
    x = f or t
    y = t and f
    while f:
        pass
    results += [x is t, y is f, not t, 5 if f else 6]
    assert t
    return results


def an_exception_in_a_condition():
    class Bad:
        def __bool__(self):
            raise ValueError("neither true nor false")

    b = Bad()

    def in_if():
        if b:
            pass

    def in_while():
        while b:
            pass

    return [
        error_of(f)
        for f in (
            in_if,
            in_while,
            lambda: b and 1,
            lambda: b or 1,
            lambda: not b,
            lambda: 1 if b else 2,
            lambda: [x for x in (b,) if x],
            lambda: any([b]),
        )
    ]


def an_undecidable_condition_leaves_the_program():
    class Many:
        def __len__(self):
            return -1

    if Many():
        return "true"
    return "false"


def constant_conditions():
    if True:
        a = 1
    if False:
        a = 2
    if 0:
        a = 3
    elif 1:
        b = 4
    while 0:
        a = 5
    if not None:
        c = 6
    if __debug__:
        d = 7
    return a, b, c, d, 1 if "" else 2, () or "empty", "x" and "y"


def nested_conditionals_and_early_returns():
    def classify(point):
        if point is None:
            return "missing"
        x, y = point
        if x == 0:
            if y == 0:
                return "origin"
            return "y-axis"
        if y == 0:
            return "x-axis"
        if x > 0:
            if y > 0:
                return "I"
            else:
                return "IV"
        else:
            if y > 0:
                return "II"
        return "III"

    return [classify(p) for p in (None, (0, 0), (0, 1), (1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))]


def a_traffic_light_controller():
    def controller(events):
        state, timer, log = "red", 0, []
        for event in events:
            timer += 1
            if event == "tick":
                if state == "red" and timer >= 3 or state == "green" and timer >= 4:
                    state, timer = ("green" if state == "red" else "amber"), 0
                elif state == "amber" and timer > 0:
                    state, timer = "red", 0
            elif event == "button" and state == "green":
                state, timer = "amber", 0
            elif event == "reset" or not event:
                state, timer = "red", 0
            log.append(state[0])
        return "".join(log)

    return controller(["tick"] * 12), controller(["tick", "tick", "tick", "button", "tick", "", "tick"])


def fizzbuzz_in_three_ways():
    first = [
        "FizzBuzz" if n % 15 == 0 else "Fizz" if n % 3 == 0 else "Buzz" if n % 5 == 0 else n
        for n in range(1, 16)
    ]
    second = [(not n % 3) * "Fizz" + (not n % 5) * "Buzz" or n for n in range(1, 16)]
    third = []
    for n in range(1, 16):
        match n % 3, n % 5:
            case 0, 0:
                third.append("FizzBuzz")
            case 0, _:
                third.append("Fizz")
            case _, 0:
                third.append("Buzz")
            case _:
                third.append(n)
    return first == second == third, first
