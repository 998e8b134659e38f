"""Recursive functions, direct and mutual, and the limit."""

from programs import error_of


def factorial_fibonacci_and_ackermann():
    def factorial(n):
        return 1 if n <= 1 else n * factorial(n - 1)

    def fibonacci(n):
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    def ackermann(m, n):
        if m == 0:
            return n + 1
        return ackermann(m - 1, 1 if n == 0 else ackermann(m, n - 1))

    return factorial(20), fibonacci(12), ackermann(2, 3)


def _deep(n):
    return 0 if n == 0 else 1 + _deep(n - 1)


def recursion_three_hundred_deep():
    return _deep(300)


def recursion_without_end_is_an_error():
    def forever(n):
        return forever(n + 1)

    try:
        forever(0)
    except RecursionError as e:
        return type(e).__name__, str(e)[:32]


def recursion_without_end_through_a_special_method():
    class Loop:
        def __getattr__(self, name):
            return getattr(self, name + "x")

    try:
        Loop().a
    except RecursionError as e:
        return type(e).__name__


def recursion_through_a_generator():
    def count(n):
        if n:
            yield n
            yield from count(n - 1)

    return list(count(50)), sum(count(20))


def recursion_through_a_class():
    class Tree:
        def __init__(self, depth):
            self.children = [Tree(depth - 1) for _ in range(2)] if depth else []

        def size(self):
            return 1 + sum(c.size() for c in self.children)

        def __eq__(self, other):
            return self.children == other.children

        def __repr__(self):
            return f"({''.join(map(repr, self.children))})"

    return Tree(4).size(), Tree(3) == Tree(3), Tree(2) == Tree(3), repr(Tree(2))


def recursion_through_callbacks_from_c():
    def depth(x):
        return 1 + max(map(depth, x), default=0) if isinstance(x, list) else 0

    def normal(x):
        return sorted(map(normal, x), key=str) if isinstance(x, list) else x

    return depth([1, [2, [3, []]], []]), normal([[2, 1], [], [[1], 0]])


def mutual_recursion():
    def is_even(n):
        return n == 0 or is_odd(n - 1)

    def is_odd(n):
        return n != 0 and is_even(n - 1)

    return is_even(40), is_odd(7), is_even(5)


def an_exception_from_deep_inside():
    def dive(n):
        if n == 0:
            raise ValueError("bottom")
        try:
            return dive(n - 1)
        except ValueError as e:
            e.args = (f"{e.args[0]}<{n}",)
            raise

    return error_of(dive, 5)


def nested_contexts_from_recursion():
    def dive(n):
        try:
            if n == 0:
                raise KeyError("bottom")
            dive(n - 1)
        except Exception:
            raise ValueError(n)

    dive(2)


def quicksort_powerset_and_subsets():
    def powerset(items):
        if not items:
            return [[]]
        rest = powerset(items[1:])
        return rest + [[items[0], *r] for r in rest]

    def subsets_with_sum(items, target):
        if target == 0:
            return [()]
        return [
            (x, *s)
            for i, x in enumerate(items)
            if x <= target
            for s in subsets_with_sum(items[i + 1 :], target - x)
        ]

    return powerset([1, 2, 3]), subsets_with_sum([1, 2, 3, 4, 5], 6)


def eight_queens_backtracking():
    def solve(n, queens=()):
        if len(queens) == n:
            return queens
        row = len(queens)
        for column in range(n):
            if all(column != c and abs(column - c) != row - r for r, c in enumerate(queens)):
                if solution := solve(n, (*queens, column)):
                    return solution
        return None

    return solve(6), solve(3), solve(8)


def a_recursive_descent_calculator():
    def parse(text):
        tokens = text.replace("(", " ( ").replace(")", " ) ").split()

        def expression():
            value = term()
            while tokens and tokens[0] in "+-":
                value = value + term() if tokens.pop(0) == "+" else value - term()
            return value

        def term():
            value = factor()
            while tokens and tokens[0] in "*/":
                if tokens.pop(0) == "*":
                    value *= factor()
                else:
                    value /= factor()
            return value

        def factor():
            if not tokens:
                raise SyntaxError("unexpected end")
            token = tokens.pop(0)
            if token == "(":
                value = expression()
                if not tokens or tokens.pop(0) != ")":
                    raise SyntaxError("missing )")
                return value
            if token == "-":
                return -factor()
            return int(token)

        value = expression()
        if tokens:
            raise SyntaxError(f"left over: {' '.join(tokens)}")
        return value

    return [
        parse("1 + 2 * ( 3 - 4 )"),
        parse("- ( 2 * - 3 ) / 4"),
        *[error_of(parse, t) for t in ("1 +", "( 1", "1 2", "a", "1 / 0")],
    ]


def a_small_lisp():
    import operator as op
    from functools import reduce

    def read(tokens):
        token = tokens.pop(0)
        if token == "(":
            items = []
            while tokens[0] != ")":
                items.append(read(tokens))
            tokens.pop(0)
            return items
        return int(token) if token.lstrip("-").isdigit() else token

    def evaluate(x, env):
        while True:
            match x:
                case int():
                    return x
                case str():
                    while x not in env:
                        env = env["outer"]
                        if env is None:
                            raise NameError(x)
                    return env[x]
                case ["if", test, then, other]:
                    x = then if evaluate(test, env) else other
                case ["define", str(name), value]:
                    env[name] = evaluate(value, env)
                    return None
                case ["lambda", [*names], body]:
                    return names, body, env
                case [f, *args]:
                    f = evaluate(f, env)
                    args = [evaluate(a, env) for a in args]
                    if callable(f):
                        return f(*args)
                    names, x, outer = f
                    env = dict(zip(names, args, strict=True), outer=outer)

    env = {
        "+": lambda *a: sum(a),
        "*": lambda *a: reduce(op.mul, a, 1),
        "-": op.sub,
        "<": op.lt,
        "outer": None,
    }

    def run(text):
        return evaluate(read(text.replace("(", " ( ").replace(")", " ) ").split()), env)

    run("(define fact (lambda (n) (if (< n 2) 1 (* n (fact (- n 1))))))")
    run("(define make-adder (lambda (n) (lambda (x) (+ x n))))")
    run("(define loop (lambda (n acc) (if (< n 1) acc (loop (- n 1) (+ acc n)))))")
    return (
        run("(fact 10)"),
        run("((make-adder 5) 10)"),
        run("(loop 200 0)"),
        error_of(run, "(missing 1)"),
        error_of(run, "(fact)"),
    )


def a_recursion_limit_that_the_program_sets():
    import sys

    def depth(n):
        return n if n == 0 else 1 + depth(n - 1)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 400)
    try:
        return depth(limit + 100) == limit + 100
    finally:
        sys.setrecursionlimit(limit)
