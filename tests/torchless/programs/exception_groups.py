"""Exception groups and except*."""

import sys

from programs import error_of


def _shape(error):
    """A group as nested data."""
    if isinstance(error, BaseExceptionGroup):
        return type(error).__name__, error.message, [_shape(e) for e in error.exceptions]
    return type(error).__name__, str(error)


def _caught(f, *args):
    try:
        f(*args)
    except BaseException as e:
        return _shape(e)
    return "nothing raised"


def except_star_splits_a_group():
    log = []
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2), ValueError(3), TypeError(4)])
    except* ValueError as eg:
        log.append(_shape(eg))
    except* (KeyError, TypeError) as eg:
        log.append(_shape(eg))
    return log


def what_no_clause_takes_is_raised_on():
    def f():
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        except* ValueError:
            print("took the value error")

    return _caught(f)


def a_single_exception_is_wrapped():
    try:
        raise ValueError("alone")
    except* ValueError as eg:
        return_value = _shape(eg)
    return return_value


def a_single_exception_that_is_not_taken_stays_single():
    def f():
        try:
            raise KeyError("alone")
        except* ValueError:
            print("wrong")

    return _caught(f)


def nested_groups_keep_their_structure():
    group = ExceptionGroup(
        "outer", [ValueError(1), ExceptionGroup("inner", [KeyError(2), ValueError(3)]), TypeError(4)]
    )
    seen = []

    def f():
        try:
            raise group
        except* ValueError as eg:
            seen.append(_shape(eg))

    return _caught(f), seen


def exceptions_raised_in_the_clauses_are_collected():
    def f():
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2), TypeError(3)])
        except* ValueError:
            raise RuntimeError("while handling")
        except* KeyError as eg:
            raise OSError("other") from eg

    return _caught(f)


def bare_raise_in_a_clause_raises_its_part_again():
    def f():
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2), TypeError(3)])
        except* ValueError:
            raise
        except* KeyError:
            print("handled")

    return _caught(f)


def else_and_finally_with_except_star():
    def f(error):
        log = []
        try:
            if error:
                raise error
        except* ValueError:
            log.append("except")
        else:
            log.append("else")
        finally:
            log.append("finally")
        return log

    return f(None), f(ValueError()), f(ExceptionGroup("g", [ValueError()])), _caught(f, KeyError(1))


def the_name_of_a_clause_is_deleted():
    try:
        raise ExceptionGroup("g", [ValueError()])
    except* ValueError as eg:
        kept = len(eg.exceptions)
    return kept, error_of(lambda: eg)


def exc_info_inside_a_clause_is_the_part():
    seen = []
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
    except* ValueError:
        seen.append(_shape(sys.exc_info()[1]))
    except* KeyError:
        seen.append(_shape(sys.exception()))
    return seen, sys.exception()


def except_star_in_a_loop():
    handled = []
    for kinds in ([ValueError], [KeyError, ValueError], [], [TypeError]):
        try:
            if kinds:
                raise ExceptionGroup("g", [k("x") for k in kinds])
            handled.append("nothing")
        except* ValueError:
            handled.append("value")
        except* (KeyError, TypeError):
            handled.append("key or type")
    return handled


def catching_groups_with_except_star_is_refused():
    def f():
        try:
            raise ValueError(1)
        except* ExceptionGroup:
            pass

    return _caught(f)


def a_group_leaves_the_program():
    try:
        raise ExceptionGroup(
            "several", [ValueError("v"), ExceptionGroup("nested", [KeyError("k"), TypeError("t")])]
        )
    except* KeyError:
        pass


def a_group_from_handlers_leaves_the_program():
    try:
        raise ExceptionGroup("several", [ValueError("v"), KeyError("k")])
    except* ValueError as eg:
        raise RuntimeError("converted") from eg


def making_groups():
    return [
        _shape(ExceptionGroup("g", [ValueError()])),
        _shape(BaseExceptionGroup("g", [ValueError()])),
        _shape(BaseExceptionGroup("g", [KeyboardInterrupt()])),
        error_of(lambda: ExceptionGroup("g", [])),
        error_of(lambda: ExceptionGroup("g", [5])),
        error_of(lambda: ExceptionGroup("g", [KeyboardInterrupt()])),
        error_of(lambda: ExceptionGroup(1, [ValueError()])),
        str(ExceptionGroup("two", [ValueError(), KeyError()])),
        repr(ExceptionGroup("two", [ValueError(1)])),
    ]


def split_and_subgroup():
    g = ExceptionGroup("g", [ValueError(1), ExceptionGroup("n", [KeyError(2), ValueError(3)])])
    matched, rest = g.split(ValueError)
    return [
        _shape(matched), _shape(rest), _shape(g.subgroup(KeyError)), g.subgroup(OSError),
        _shape(g.subgroup(lambda e: e.args == (3,))),
    ]  # fmt: skip


def a_group_subclass_derives_its_parts():
    class MyGroup(ExceptionGroup):
        def __new__(cls, message, errors, code):
            self = super().__new__(cls, message, errors)
            self.code = code
            return self

        def derive(self, errors):
            return MyGroup(self.message, errors, self.code + 1)

    seen = []
    try:
        raise MyGroup("mine", [ValueError(1), KeyError(2)], 10)
    except* ValueError as eg:
        seen.append((type(eg).__name__, eg.code, _shape(eg)))
    except* KeyError as eg:
        seen.append((type(eg).__name__, eg.code))
    return seen


def notes_and_causes_are_copied_to_the_parts():
    g = ExceptionGroup("g", [ValueError(1), KeyError(2)])
    g.add_note("a note")
    try:
        try:
            raise g from OSError("cause")
        except* ValueError as eg:
            part = eg.__notes__, repr(eg.__cause__)
    except ExceptionGroup as rest:
        return part, rest.__notes__, repr(rest.__cause__)


def return_and_break_around_except_star():
    def f():
        for i in range(3):
            try:
                try:
                    raise ExceptionGroup("g", [ValueError(i)])
                except* ValueError:
                    print("handled", i)
            finally:
                if i == 1:
                    return i

    return f()


def running_all_tasks_and_collecting_their_errors():
    def run(tasks):
        results, errors = {}, []
        for name, task in tasks.items():
            try:
                results[name] = task()
            except Exception as e:
                e.add_note(f"in task {name}")
                errors.append(e)
        if errors:
            raise ExceptionGroup(f"{len(errors)} of {len(tasks)} tasks failed", errors)
        return results

    report = []
    try:
        run({"a": lambda: 1, "b": lambda: 1 / 0, "c": lambda: [][1], "d": lambda: {}["k"]})
    except* LookupError as eg:
        report.append([(type(e).__name__, e.__notes__) for e in eg.exceptions])
    except* ArithmeticError as eg:
        report.append((eg.message, str(eg.exceptions[0])))
    return report, run({"a": lambda: 1})


def except_star_inside_a_generator():
    def g():
        try:
            yield 1
            yield 2
        except* ValueError as eg:
            yield _shape(eg)
        yield "end"

    it = g()
    return next(it), it.throw(ExceptionGroup("thrown", [ValueError("x")])), next(it)
