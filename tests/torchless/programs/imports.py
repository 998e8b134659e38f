"""Import statements in every form, on real modules and on modules made for the occasion."""

import contextlib
import sys
import types

from programs import error_of


@contextlib.contextmanager
def _modules(**sources):
    """Packages and modules that exist inside the with block; __ in a name stands for a dot."""
    names = [name.replace("__", ".") for name in sources]
    try:
        for name, source in zip(names, sources.values()):
            module = types.ModuleType(name)
            package, _, last = name.rpartition(".")
            module.__package__ = package if package else name
            if not package:
                module.__path__ = []
            sys.modules[name] = module
            exec(source, vars(module))
            if package:
                setattr(sys.modules[package], last, module)
        yield
    finally:
        for name in names:
            sys.modules.pop(name, None)


def plain_imports():
    import collections.abc as abc
    import math
    import os.path
    import xml.dom as dom

    return math.floor(2.5), os.path.join("a", "b"), dom.__name__, abc.Sized.__name__, os.__name__


def from_imports():
    from collections import Counter
    from collections import OrderedDict as OD
    from math import (
        floor,
    )
    from math import (
        pi as PI,
    )
    from os import path

    return Counter("aab")["a"], OD.__name__, floor(PI), path.basename("/x/y")


def an_import_binds_the_top_package():
    import importlib.machinery

    return importlib.__name__, importlib.machinery.__name__


def a_missing_module_leaves_the_program():
    import no_such_module_anywhere


def a_missing_submodule_leaves_the_program():
    import json.no_such_part


def a_missing_name_leaves_the_program():
    with _modules(made=""):
        from made import nothing_here


def attributes_of_import_errors():
    results = []
    try:
        import no_such_module_anywhere
    except ModuleNotFoundError as e:
        results.append((str(e), e.name, e.path))
    with _modules(made="x = 1"):
        try:
            from made import y
        except ImportError as e:
            results.append((str(e), e.name, type(e).__name__))
    return results


def optional_imports_with_fallback():
    try:
        import no_such_fast_json as json
    except ImportError:
        import json
    try:
        from json import no_such_function as dumps
    except ImportError:
        from json import dumps
    return json.__name__, dumps([1])


def imports_inside_loops_and_conditions():
    names = []
    for flag in (True, False):
        if flag:
            import string as module
        else:
            import keyword as module
        names.append(module.__name__)
    return names


def made_modules_and_submodules():
    with _modules(
        pack="value = 1",
        pack__sub="from pack import value\nvalue += 1",
        pack__sub__deep="import pack.sub as s\nvalue = s.value * 10",
    ):
        import pack.sub.deep
        import pack.sub.deep as deep
        from pack import sub
        from pack.sub import deep as again

        return pack.value, sub.value, deep.value, again is pack.sub.deep


def relative_imports():
    with _modules(
        pack="name = 'pack'",
        pack__a="name = 'a'",
        pack__b="from . import a, name\nfrom .a import name as a_name",
    ):
        import pack.b as b

        return b.a.name, b.name, b.a_name


def relative_imports_that_go_too_far():
    def run(source, **names):
        exec(source, {"__name__": "pack.x", **names})

    with _modules(pack="", pack__x=""):
        return [
            error_of(run, "from .. import y", __package__="pack"),
            error_of(run, "from . import y", __package__=""),
            error_of(run, "from . import missing", __package__="pack"),
            error_of(run, "from .missing import y", __package__="pack"),
        ]


def star_imports_take_public_names():
    with _modules(
        plain="a = 1\n_b = 2\nc = 3",
        listed="__all__ = ['_x', 'y']\n_x = 1\ny = 2\nz = 3",
        wrong="__all__ = ['nope']",
    ):
        plain, listed = {}, {}
        exec("from plain import *", plain)
        exec("from listed import *", listed)
        public = [sorted(k for k in d if k != "__builtins__") for d in (plain, listed)]
        return public, error_of(exec, "from wrong import *", {})


def star_imports_in_a_class_body_and_in_exec_locals():
    with _modules(plain="a = 1\n_b = 2"):
        names = {}
        exec("from plain import *\nb = a + 1", {}, names)
        return names


def an_import_in_a_class_body():
    class C:
        import math
        from math import sqrt as root

        def area(self, r):
            return self.math.floor(self.math.pi * r * r)

    return C().area(2), C.root(16)


def imports_with_global():
    global _imported_math
    import math as _imported_math

    result = _imported_math.gcd(12, 18)
    del _imported_math
    return result


def modules_with_getattr():
    source = """
def __getattr__(name):
    if name.startswith("x"):
        return name * 2
    raise AttributeError(f"no {name} here")
"""
    with _modules(lazy=source):
        import lazy
        from lazy import xyz

        def missing():
            from lazy import abc

        return xyz, lazy.x1, error_of(lambda: lazy.nope), error_of(missing), hasattr(lazy, "q")


def importing_calls_the_import_function():
    import builtins

    original, calls = builtins.__import__, []

    def spy(name, globals=None, locals=None, fromlist=(), level=0):
        calls.append((name, fromlist, level))
        return original(name, globals, locals, fromlist, level)

    namespace = {"__builtins__": {"__import__": spy}}
    exec("import math\nimport os.path as p\nfrom json import dumps, loads as l\n", namespace)
    return calls, sorted(k for k in namespace if k != "__builtins__")


def import_without_an_import_function():
    return error_of(exec, "import math", {"__builtins__": {}})


def dynamic_imports():
    import importlib

    return (
        importlib.import_module("os.path").join("a", "b"),
        __import__("os.path").__name__,
        __import__("os.path", fromlist=["join"]).join("x", "y"),
        error_of(importlib.import_module, "nope.nope"),
    )


def an_error_inside_an_imported_module():
    def load():
        with _modules(broken="x = 1\ny = x / 0\n"):
            pass

    return error_of(load), "broken" in sys.modules


def a_future_import_in_compiled_source():
    namespace = {}
    exec("from __future__ import annotations\ndef f(x: undefined_name) -> also_undefined: ...", namespace)
    return namespace["f"].__annotations__


def a_module_that_is_none_in_sys_modules():
    sys.modules["blocked"] = None
    try:
        import blocked
    except ImportError as e:
        return type(e).__name__, str(e)
    finally:
        del sys.modules["blocked"]


def a_plugin_loader():
    plugins = {
        "plugins": "",
        "plugins__upper": "def run(t): return t.upper()",
        "plugins__twice": "from plugins import upper\ndef run(t): return upper.run(t) * 2",
        "plugins__broken": "def walk(t): ...",
    }
    with _modules(**plugins):
        import importlib

        results = {}
        for name in ("upper", "twice", "broken", "absent"):
            try:
                module = importlib.import_module(f"plugins.{name}")
                results[name] = module.run("ab")
            except ModuleNotFoundError as e:
                results[name] = f"missing {e.name}"
            except AttributeError as e:
                results[name] = f"{e.name} not defined"
        return results
