"""exec, eval, compile, locals, globals: code that makes code."""

from programs import error_of


def eval_of_expressions():
    x = 5
    return (
        eval("x + 1"),
        eval("x * y", {"x": 2, "y": 3}),
        eval("[i for i in range(n)]", {"n": 3}),
        eval("(lambda a: a * 2)(4)"),
        eval("a + b", {"a": 1}, {"b": 2}),
    )


def exec_fills_a_namespace():
    namespace = {"start": 10}
    exec("a = start + 1\ndef f(n):\n    return n + a\nresult = f(5)\nclass C:\n    attr = result", namespace)
    return namespace["a"], namespace["result"], namespace["C"].attr, namespace["f"](100)


def exec_with_separate_locals():
    g, l = {"x": "global"}, {"x": "local"}
    exec("y = x\nglobal z\nz = x\ndel x\nw = x", g, l)
    return sorted(l.items()), g["x"], g["z"]


def exec_with_a_mapping_for_locals():
    class Names:
        def __init__(self):
            self.log, self.data = [], {}

        def __getitem__(self, key):
            self.log.append(f"get {key}")
            return self.data[key]

        def __setitem__(self, key, value):
            self.log.append(f"set {key}")
            self.data[key] = value

        def __delitem__(self, key):
            self.log.append(f"del {key}")
            del self.data[key]

    names = Names()
    exec("a = 1\nb = a + len('xy')\ndel a", {}, names)
    return names.log, names.data, error_of(exec, "del missing", {}, Names())


def exec_in_a_function_does_not_change_its_locals():
    x = 1
    exec("x = 2; y = 3")
    return x, error_of(lambda: y)


def functions_defined_by_exec_see_only_globals():
    namespace = {}
    exec("x = 1\ndef f():\n    return x", {"x": "global"}, namespace)
    return error_of(namespace["f"]), namespace["x"]


def syntax_errors_of_compiled_source():
    sources = [
        "1 +",
        "def f(:",
        "return 5",
        "x = = 1",
        "break",
        "yield 1",
        "await x",
        "nonlocal x",
        "def f():\nreturn 1",
        "'unclosed",
        "f(a=1, a=2)",
        "1 = x",
        "def f(a, a): pass",
    ]
    return [error_of(compile, s, "<source>", "exec") for s in sources]


def a_syntax_error_leaves_the_program():
    return eval("1 + * 2")


def compile_in_every_mode():
    expression = compile("a * 2", "<e>", "eval")
    statements = compile("b = a * 3", "<s>", "exec")
    namespace = {"a": 5}
    exec(statements, namespace)
    return (
        eval(expression, {"a": 4}),
        namespace["b"],
        expression.co_names,
        statements.co_filename,
        eval(statements, {"a": 1}),
    )


def interactive_mode_prints_expressions():
    import sys

    code = compile("1 + 1\n", "<i>", "single")
    saved = sys.displayhook
    sys.displayhook = lambda value: print("displayed", value)
    try:
        exec(code)
        exec(compile("x = 5; x; None; 'text'\n", "<i>", "single"), {})
    finally:
        sys.displayhook = saved


def locals_in_a_function():
    a, b = 1, [2]
    before = dict(locals())
    c = 3

    def inner():
        return a, sorted(locals())

    return before, sorted(locals()), inner(), c, b


def locals_is_a_copy():
    x = 1
    names = locals()
    names["x"] = 99
    names["new"] = 5
    return x, "new" in locals() or True, error_of(lambda: new)


def locals_is_one_dictionary_or_many():
    """One for each call of the function before Python 3.13."""
    x = 1
    first = locals()
    first["beside"] = x = 2
    second = vars()
    del x
    y = second is first
    third = locals()
    return first["x"] if "x" in first else None, y, list(third), dir(), [second.get("y"), third.get("beside")]


def names_that_exec_sets_in_a_function():
    """There for `eval` and `locals` before Python 3.13."""
    x = 1
    exec("made = x + 1; x = 10")
    try:
        seen = eval("made + x")
    except NameError as error:
        seen = str(error)
    return x, seen, sorted(locals())


def locals_with_unbound_and_cells():
    bound = 1
    cell = 2

    def reader():
        return cell

    if not bound:
        unbound = 1
    names = locals()
    return sorted(names), names["cell"], reader()


def locals_in_a_class_body_and_at_module_level():
    class C:
        x = 1
        locals()["y"] = 2
        names = sorted(k for k in locals() if not k.startswith("__"))

    namespace = {}
    exec("same = locals() is globals()\nlocals()['made'] = 7\nvalue = made", namespace)
    return C.y, C.names, namespace["same"], namespace["value"]


def vars_and_dir_without_arguments():
    b = 1
    a = 2
    return vars(), dir(), a + b


def globals_of_a_function_are_its_modules():
    return (
        globals()["error_of"] is error_of,
        "locals_in_a_function" in globals(),
        globals() is (lambda: globals())(),
    )


def eval_sees_locals_but_not_enclosing():
    outer = 1

    def inner():
        mine = 2
        return eval("mine"), error_of(eval, "outer"), mine

    def captures():
        return eval("outer") + outer

    return inner(), captures()


def eval_and_exec_errors():
    return [
        error_of(eval, 5),
        error_of(eval, "x = 1"),
        error_of(exec, "x", {}),
        error_of(eval, "1", 5),
        error_of(exec, "1/0", {}),
        error_of(eval, "undefined"),
        error_of(compile, "1", "f", "nope"),
    ]


def exec_of_code_with_free_variables_is_refused():
    x = 1

    def f():
        return x

    return error_of(exec, f.__code__), error_of(eval, f.__code__)


def exec_of_a_function_body():
    def f():
        print("running as a code object")
        return 5

    return exec(f.__code__), eval(f.__code__)


def a_class_made_by_exec_from_a_template():
    template = """
class {name}({base}):
    fields = {fields!r}
    def __init__(self, {arguments}):
        {body}
    def __repr__(self):
        return "{name}" + repr(tuple(getattr(self, f) for f in self.fields))
"""

    def make(name, *fields, base="object"):
        source = template.format(
            name=name,
            base=base,
            fields=fields,
            arguments=", ".join(fields),
            body="; ".join(f"self.{f} = {f}" for f in fields),
        )
        namespace = {"__name__": "made"}
        exec(source, namespace)
        return namespace[name]

    Pair = make("Pair", "left", "right")
    return repr(Pair(1, right=[2])), Pair.__module__, error_of(Pair, 1)


def an_abstract_syntax_tree_compiled_and_run():
    import ast

    class Double(ast.NodeTransformer):
        def visit_Constant(self, node):
            return (
                ast.copy_location(ast.Constant(node.value * 2), node) if isinstance(node.value, int) else node
            )

    tree = Double().visit(ast.parse("x = 1 + 2 * 3\ny = 'a' * 2"))
    namespace = {}
    exec(compile(ast.fix_missing_locations(tree), "<ast>", "exec"), namespace)
    return (
        namespace["x"],
        namespace["y"],
        ast.literal_eval("{'k': [1, (2, None)]}"),
        error_of(ast.literal_eval, "f()")[0],
    )


def a_read_eval_print_loop():
    def session(*lines):
        namespace, output = {"__builtins__": {"len": len, "print": None}}, []
        for line in lines:
            try:
                try:
                    output.append(repr(eval(line, namespace)))
                except SyntaxError:
                    exec(line, namespace)
            except Exception as e:
                output.append(f"{type(e).__name__}: {e}")
        return output

    return session(
        "1 + 1", "x = 5", "x * 2", "y", "def f(n): return n + x", "f(1)", "len('abc')", "open('f')", "x +"
    )


def module_level_code_with_every_kind_of_statement():
    source = '''
"""Docstring."""
import math
from math import sqrt as root
total: int = 0
for i in range(4):
    if i == 2: continue
    total += i
else:
    total *= 10
while total > 30: total -= 7
try:
    1 / 0
except ZeroDivisionError as e:
    caught = str(e)
finally:
    done = True
with __import__("contextlib").nullcontext(3) as three: pass
def f(x): return x + total
squares = [f(n) ** 2 for n in range(2)]
a, *b = "xyz"
del i
class C:
    y = total
    del_me = 1
    del del_me
lambda: None
match b:
    case ["y", last]: matched = last
assert total
global_value = root(16) + math.floor(2.5) + three
'''
    namespace = {}
    exec(source, namespace)
    kept = ("total", "caught", "done", "squares", "a", "b", "matched", "global_value", "__doc__")
    return {k: namespace[k] for k in kept}, namespace["C"].y, "i" in namespace, "e" in namespace


def expressions_of_an_interactive_session():
    source = "for n in range(2):\n    n\n    'two'\n"
    exec(compile(source, "<session>", "single"), {"__builtins__": __builtins__})


def the_code_of_a_module_called_as_a_function():
    import types

    namespace = {"known": 2}
    types.FunctionType(compile("made = known + 1", "<module>", "exec"), namespace)()
    return namespace["made"]


def a_mapping_that_says_what_dir_finds():
    class Names:
        def __getitem__(self, name):
            raise KeyError(name)

        def keys(self):
            return ["z", "a"]

    return eval("dir()", {}, Names())


def builtins_that_look_up_in_their_own_way():
    class Builtins(dict):
        def __getitem__(self, name):
            return name.upper()

    return eval("unknown", {"__builtins__": Builtins()})


def flags_of_compile_that_are_no_plain_number():
    class Flags(int):
        def __or__(self, other):
            raise RuntimeError

        __ror__ = __or__

    return eval(compile("1", "<flags>", "eval", Flags(0)))
