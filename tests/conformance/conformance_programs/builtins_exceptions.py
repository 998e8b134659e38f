"""Library reference: the builtin exceptions (5): made, raised, caught, asked for their attributes, grouped."""

from __future__ import annotations

import builtins

from conformance_programs import add, compiled_from, error_of, program

ARGUMENTS = {
    "BaseExceptionGroup": "'several', [ValueError(1)]",
    "ExceptionGroup": "'several', [ValueError(1), TypeError('a')]",
    "UnicodeDecodeError": "'ascii', b'ab', 0, 1, 'why'",
    "UnicodeEncodeError": "'ascii', 'ab', 0, 1, 'why'",
    "UnicodeTranslateError": "'ab', 0, 1, 'why'",
    "SyntaxError": "'bad', ('file', 1, 2, 'text', 1, 3)",
    "IndentationError": "'bad', ('file', 1, 2, 'text', 1, 3)",
    "TabError": "'bad', ('file', 1, 2, 'text', 1, 3)",
    "_IncompleteInputError": "'bad', ('file', 1, 2, 'text', 1, 3)",
    "OSError": "2, 'no such', 'name'",
    "ImportError": "'no', name='n', path='p'",
    "ModuleNotFoundError": "'no', name='n', path='p'",
    "AttributeError": "'no', name='n', obj=3",
    "NameError": "'no', name='n'",
    "UnboundLocalError": "'no', name='n'",
    "StopIteration": "3",
    "SystemExit": "3",
    "KeyError": "'k'",
}
"""What an exception is made with, where a text would not do, or not do enough."""

ATTRIBUTES = {
    "BaseExceptionGroup": "message exceptions",
    "ExceptionGroup": "message exceptions",
    **dict.fromkeys(("UnicodeDecodeError", "UnicodeEncodeError"), "encoding object start end reason"),
    "UnicodeTranslateError": "object start end reason",
    **dict.fromkeys(
        ("SyntaxError", "IndentationError", "TabError", "_IncompleteInputError"),
        "msg filename lineno offset text end_lineno end_offset",
    ),
    "OSError": "errno strerror filename filename2",
    **dict.fromkeys(("ImportError", "ModuleNotFoundError"), "msg name path"),
    "AttributeError": "name obj",
    **dict.fromkeys(("NameError", "UnboundLocalError"), "name"),
    "StopIteration": "value",
    "SystemExit": "code",
}

OUTERMOST = {"KeyboardInterrupt": "is the user's, and ends the trace"}
"""Exceptions that a program can't handle as others."""

EXCEPTIONS = sorted(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException) and name == value.__name__
)

MADE = """
def f(x):
    y = x + 1
    error = {name}({args})
    error.add_note('a note')
    seen = [error.args, str(error), repr(error), error.__notes__, type(error).__mro__, error.__cause__]
    seen += [error.__context__, error.__traceback__, error.__suppress_context__]
    seen += [getattr(error, each) for each in {attributes}]
    error.own = x
    error.args = (1, 'b')
    return y * 2, seen, error.args, error, error == {name}({args})
"""

RAISED = """
def f(x):
    y = x + 1
    seen = []
    try:
        try:
            raise {name}({args})
        finally:
            seen.append('finally')
    except {name} as error:
        seen += [error.args, str(error), error.__context__]
        try:
            raise RuntimeError('next') from error
        except RuntimeError as other:
            seen += [other.__cause__ is error, other.__context__ is error, other.__suppress_context__]
    try:
        raise {name}({args}).with_traceback(None)
    except BaseException as error:
        seen += [type(error) is {name}, isinstance(error, Exception)]
    return y * 2, seen
"""

ESCAPING = """
def f(x):
    y = x + 1
    raise {name}({args})
"""

for _name in EXCEPTIONS:
    if _name in OUTERMOST:
        continue
    _words = {
        "name": _name,
        "args": ARGUMENTS.get(_name, "'text', 2"),
        "attributes": ATTRIBUTES.get(_name, "").split(),
    }
    for _form, _text in {"made": MADE, "raised": RAISED}.items():
        add(f"builtins_exceptions::{_name} {_form}", compiled_from(_text.format(**_words)))


class _Failure(ValueError):
    def __init__(self, code, detail=None):
        super().__init__(code)
        self.code, self.detail = code, detail

    def __str__(self):
        return f"failed with {self.code}"


@program
def an_exception_of_ones_own(x):
    try:
        raise _Failure(3, detail=x)
    except ValueError as error:
        return x + error.code, str(error), error.args, error.detail


@program
def the_context_is_what_was_being_handled(x):
    try:
        try:
            raise KeyError("first")
        except KeyError:
            raise TypeError("second")  # noqa: B904
    except TypeError as error:
        return x + 1, str(error.__context__), error.__cause__, error.__suppress_context__


@program
def from_none_hides_the_context(x):
    try:
        try:
            raise KeyError("first")
        except KeyError:
            raise TypeError("second") from None
    except TypeError as error:
        return x + 1, str(error.__context__), error.__cause__, error.__suppress_context__


@program
def groups_are_split(x):
    group = ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [TypeError(2), KeyError(3)])])
    match, rest = group.split((TypeError, ValueError))
    only = group.subgroup(lambda error: isinstance(error, KeyError))
    made = group.derive([OSError(4)])
    return (
        x + 1,
        repr(match),
        repr(rest),
        repr(only),
        repr(made),
        group.message,
        error_of(ExceptionGroup, "e", []),
    )


@program
def except_star_takes_what_it_knows(x):
    seen = []
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2), ValueError(3)])
    except* ValueError as group:
        seen.append(("value", [error.args for error in group.exceptions]))
    except* TypeError as group:
        seen.append(("type", len(group.exceptions)))
    return x + len(seen), seen


@program
def notes_are_kept(x):
    error = ValueError("a")
    error.add_note("one")
    error.add_note("two")
    return x + 1, error.__notes__, error_of(error.add_note, 3)


@program
def a_bare_raise_goes_on_with_it(x):
    def f():
        try:
            raise KeyError(1)
        except KeyError:
            raise

    return x + 1, error_of(f), error_of(exec_nothing_to_raise)


def exec_nothing_to_raise():
    raise  # noqa: PLE0704


@program
def only_exceptions_can_be_raised_and_caught(x):
    def wrong():
        raise 3

    def caught():
        try:
            raise KeyError(1)
        except 3:
            pass

    def cause():
        raise KeyError(1) from 3

    return x + 1, error_of(wrong), error_of(caught), error_of(cause)


@program(given=lambda: (ValueError("given"),), breaks=("exception from before", "opaque object"))
def an_exception_from_outside_is_raised(x, error):
    y = x + 1
    return y * 2, error_of(_raise, error)


def _raise(error):
    raise error


@program(given=lambda: (ValueError("given", 2),))
def an_exception_from_outside_is_held(x, error):
    return x + 1, error, [error, error]
