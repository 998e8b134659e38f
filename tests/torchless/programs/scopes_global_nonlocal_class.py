"""Where names live: locals, globals, enclosing scopes, class bodies, builtins."""

from programs import error_of

_counter = 0
_switch = "module"


def globals_are_read_and_written():
    global _counter
    _counter = 0

    def up():
        global _counter
        _counter += 1
        return _counter

    up()
    up()
    result, _counter = _counter, 0
    return result


def a_local_shadows_a_global():
    def shadow():
        _switch = "local"
        return _switch

    def read():
        return _switch

    return shadow(), read()


def a_name_assigned_anywhere_is_local_everywhere():
    def f():
        value = _switch
        _switch = value

    return error_of(f)


def global_inside_a_nested_function_skips_the_enclosing_one():
    _switch = "enclosing"

    def inner():
        global _switch
        return _switch

    def enclosed():
        return _switch

    return inner(), enclosed()


def globals_created_and_deleted_at_run_time():
    global _made_here

    def read():
        return _made_here

    before = error_of(read)
    _made_here = 1
    during = read()
    del _made_here
    return before, during, error_of(read), "_made_here" in globals()


def builtins_can_be_shadowed_and_restored():
    global len
    len = lambda x: "shadowed"
    try:
        shadowed = len([1])
    finally:
        del len
    return shadowed, len([1])


def a_builtin_is_found_after_the_global_is_deleted():
    namespace = {}
    exec("abs = 5\nfirst = abs\ndel abs\nsecond = abs(-3)", namespace)
    return namespace["first"], namespace["second"]


def nonlocal_at_several_depths():
    x = 0

    def level_1():
        nonlocal x
        x += 1

        def level_2():
            nonlocal x
            x += 10

            def level_3():
                nonlocal x
                x += 100
                return x

            return level_3()

        return level_2()

    return level_1(), x


def nonlocal_binds_to_the_nearest_enclosing():
    x = "outer"

    def middle():
        x = "middle"

        def inner():
            nonlocal x
            x = "changed"

        inner()
        return x

    return middle(), x


def class_scopes_are_skipped_by_methods():
    x = "function"

    class C:
        x = "class"

        def get(self):
            return x

        from_class = x

    return C().get(), C.from_class


def a_class_inside_a_method_inside_a_class():
    class A:
        tag = "A"

        def make(self):
            outer = self

            class B:
                tag = outer.tag + "B"

                def both(self):
                    return outer.tag, self.tag

            return B()

    return A().make().both()


def comprehension_scopes_inside_functions_and_classes():
    x = 10

    class C:
        x = 20
        direct = x
        through = [x for _ in range(1)]
        generator = list(x for _ in range(1))
        iterable = [i for i in range(x - 18)]

    return C.direct, C.through, C.generator, C.iterable


def loop_and_with_and_import_bind_locals():
    import contextlib

    with contextlib.nullcontext(5) as w:
        pass
    for i in range(2):
        pass
    try:
        raise ValueError
    except ValueError as e:
        kept = type(e).__name__
    return w, i, kept, sorted(locals())


def del_and_rebind():
    x = 1
    del x
    x = 2
    y = x
    del x, y
    return error_of(lambda: (x, y)), "x" in locals()


def unbound_after_conditional_del():
    def f(flag):
        x = 1
        if flag:
            del x
        return x

    return f(False), error_of(f, True)


def a_deleted_local_leaves_the_program():
    value = [1, 2]
    total = sum(value)
    del value
    return total, value


def locals_in_try_blocks_may_be_unbound():
    def f(fail):
        try:
            if fail:
                raise ValueError
            result = "set"
        except ValueError:
            pass
        return result

    return f(False), error_of(f, True)


def functions_have_their_own_globals():
    a, b = {"x": "a"}, {"x": "b"}
    source = "def get(): return x\ndef put(v):\n    global x\n    x = v"
    exec(source, a)
    exec(source, b)
    a["put"]("changed")
    return a["get"](), b["get"](), a["x"], a["get"].__globals__ is a


def functions_with_their_own_builtins():
    namespace = {"__builtins__": {"len": lambda x: "own len"}}
    exec("def f(x): return len(x)\ndef g(x): return str(x)", namespace)
    return namespace["f"]([]), error_of(namespace["g"], 1)


def a_missing_name_in_restricted_builtins():
    namespace = {"__builtins__": {}}
    return (
        error_of(exec, "class C: pass", namespace),
        error_of(exec, "print(1)", namespace),
        error_of(exec, "assert 0", namespace),
    )


def the_name_of_the_module():
    return __name__.rpartition(".")[2], globals()["__name__"] == __name__, __doc__.split(":")[0]


def a_configuration_stack_with_globals():
    global _switch
    saved = _switch
    log = []

    class override:
        def __init__(self, value):
            self.value = value

        def __enter__(self):
            global _switch
            self.saved, _switch = _switch, self.value

        def __exit__(self, *exc_info):
            global _switch
            _switch = self.saved

    def look():
        log.append(_switch)

    look()
    with override("one"):
        look()
        try:
            with override("two"):
                look()
                raise KeyError
        except KeyError:
            look()
    look()
    return log, _switch is saved


def many_locals():
    source = (
        "def f():\n"
        + "".join(f"    v{i} = {i}\n" for i in range(300))
        + "    return v0 + v255 + v256 + v299, len(locals())\n"
    )
    namespace = {}
    exec(source, namespace)
    return namespace["f"]()


def many_names_and_attributes():
    lines = [f"n{i} = {i}" for i in range(300)]
    source = (
        "class C: pass\n"
        + "\n".join(lines)
        + "\n"
        + "".join(f"C.a{i} = n{i}\n" for i in range(300))
        + "total = C.a0 + C.a299 + n256\n"
    )
    namespace = {}
    exec(source, namespace)
    return namespace["total"]
