"""Small programs over the whole Python language, one module per chapter.

A program is a module-level function without arguments and without a leading underscore. It starts from
fresh state, does the same on every run, and is known by what it returns (plain data), prints and raises.
What starts with an underscore serves the programs of its chapter. `test_language.py` runs each program
natively and under the interpreter and compares.
"""


def error_of(call, *args, **kwargs):
    """What `call` raises, as data; or what it returns, marked as such."""
    try:
        return "no error", call(*args, **kwargs)
    except BaseException as error:
        return type(error).__name__, str(error)
