"""Closures: cells, late binding, nonlocal, and what happens to empty cells."""

from programs import error_of


def a_closure_keeps_its_variable():
    def make(n):
        def add(x):
            return x + n

        return add

    five, ten = make(5), make(10)
    return five(1), ten(1), five.__closure__[0].cell_contents, five.__code__.co_freevars


def closures_in_a_loop_share_the_variable():
    functions = []
    for i in range(3):
        functions.append(lambda: i)
    default = [lambda i=i: i for i in range(3)]
    return [f() for f in functions], [f() for f in default]


def nonlocal_writes_are_seen_by_all_closures():
    def counter():
        n = 0

        def up(by=1):
            nonlocal n
            n += by
            return n

        def reset():
            nonlocal n
            n = 0

        return up, reset, lambda: n

    up, reset, read = counter()
    up()
    up(5)
    before = read()
    reset()
    return before, read(), up()


def each_call_has_its_own_cells():
    def make():
        items = []
        return lambda x: items.append(x) or list(items)

    a, b = make(), make()
    return a(1), a(2), b(3), a.__closure__[0] is b.__closure__[0]


def a_parameter_can_be_a_cell():
    def outer(x, *args, key=None, **kwargs):
        def inner():
            return x, args, key, kwargs

        x += 1
        args += (9,)
        return inner

    return outer(1, 2, key=3, z=4)()


def closures_over_several_levels():
    def a():
        x = 1

        def b():
            y = 2

            def c():
                nonlocal x, y
                x += 10
                y += 20
                return x + y

            return c, lambda: (x, y)

        return b

    c, read = a()()
    return c(), c(), read()


def a_free_variable_read_before_assignment():
    def outer():
        def inner():
            return later

        try:
            inner()
        except NameError as e:
            message = type(e).__name__, str(e), e.name
        later = 1
        return message, inner()

    return outer()


def a_cell_variable_read_before_assignment_in_its_own_scope():
    def outer():
        try:
            return mine
        except UnboundLocalError as e:
            return str(e)
        mine = 1
        return lambda: mine

    return outer()


def a_deleted_cell_variable():
    def outer():
        x = 1

        def read():
            return x

        def delete():
            nonlocal x
            del x

        before = read()
        delete()
        again = error_of(delete)
        try:
            read()
        except NameError as e:
            missing = str(e)
        here = error_of(lambda: x)
        x = 2
        return before, again, missing, here, read()

    return outer()


def deleting_a_cell_variable_in_its_own_scope_twice():
    x = 1
    del x
    _ = lambda: x
    del x


def cell_contents_can_be_set_from_outside():
    def outer():
        x = 1
        return lambda: x

    f = outer()
    cell = f.__closure__[0]
    cell.cell_contents = 42
    changed = f()
    del cell.cell_contents
    return changed, error_of(f), error_of(lambda: cell.cell_contents)


def functions_referring_to_each_other():
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    return even(10), odd(7), even(3)


def a_closure_over_a_loop_variable_sees_the_next_value():
    seen = []
    for i in range(3):

        def look():
            return i

        seen.append(look())
        i *= 10
        seen.append(look())
    return seen, look()


def a_class_body_reads_an_enclosing_variable():
    base = 10

    class C:
        value = base + 1

        def method(self):
            return base + self.value

    base = 100
    return C.value, C().method()


def comprehensions_close_over_enclosing_variables():
    factor = 3
    table = {n: [lambda: (n, factor, m) for m in range(2)] for n in range(2)}
    factor = 4
    return [[f() for f in row] for row in table.values()]


def a_generator_closes_over_a_variable_that_changes():
    limit = 3

    def count():
        i = 0
        while i < limit:
            yield i
            i += 1

    g = count()
    first = next(g)
    limit = 2
    return first, list(g)


def a_memoizing_decorator_with_a_closure():
    def memoize(f):
        cache = {}
        hits = 0

        def wrapper(*args):
            nonlocal hits
            if args in cache:
                hits += 1
                return cache[args]
            cache[args] = result = f(*args)
            return result

        wrapper.statistics = lambda: (len(cache), hits)
        return wrapper

    @memoize
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return fib(30), fib.statistics()


def an_account_made_of_closures():
    def account(balance):
        history = []

        def deposit(amount):
            nonlocal balance
            balance += amount
            history.append(("deposit", amount))

        def withdraw(amount):
            nonlocal balance
            if amount > balance:
                raise ValueError(f"balance is {balance}, wanted {amount}")
            balance -= amount
            history.append(("withdraw", amount))

        def dispatch(message, *args):
            return {
                "deposit": deposit,
                "withdraw": withdraw,
                "balance": lambda: balance,
                "history": lambda: history,
            }[message](*args)

        return dispatch

    a, b = account(10), account(5)
    a("deposit", 7)
    b("withdraw", 5)
    return (
        a("balance"),
        b("balance"),
        a("history"),
        error_of(lambda: b("withdraw", 1)),
        error_of(lambda: a("steal")),
    )


def composing_functions_by_closure():
    def compose(*functions):
        if not functions:
            return lambda x: x
        first, *rest = functions
        after = compose(*rest)
        return lambda x: first(after(x))

    return compose(lambda x: x + 1, lambda x: x * 2, abs)(-5), compose()(7)


def an_event_system_made_of_closures():
    def events():
        handlers = {}

        def on(name):
            def register(handler):
                handlers.setdefault(name, []).append(handler)

                def off():
                    handlers[name].remove(handler)

                handler.off = off
                return handler

            return register

        def emit(name, *args):
            return [handler(*args) for handler in list(handlers.get(name, ()))]

        return on, emit

    on, emit = events()
    log = []

    @on("change")
    def first(x):
        log.append(("first", x))
        return x

    @on("change")
    def once(x):
        once.off()
        return -x

    return emit("change", 1), emit("change", 2), emit("nothing"), log


def the_cells_of_a_recursive_inner_function():
    def outer(n):
        path = []

        def walk(k):
            path.append(k)
            if k:
                walk(k - 1)
            return walk.__code__.co_freevars

        return walk(n), path

    return outer(3)
