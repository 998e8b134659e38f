"""try, except, else, finally and raise in every arrangement; causes, contexts and notes."""

import sys

from programs import error_of


class _Custom(Exception):
    pass


def _chain(error):
    """The exception and what is under it, as data."""
    if error is None:
        return None
    return (
        type(error).__name__,
        str(error),
        _chain(error.__cause__),
        _chain(error.__context__),
        error.__suppress_context__,
    )


def the_four_clauses():
    def run(x):
        log = []
        try:
            log.append("try")
            if x == 1:
                raise ValueError
            if x == 2:
                raise KeyError
        except ValueError:
            log.append("except")
        else:
            log.append("else")
        finally:
            log.append("finally")
        return log

    return run(0), run(1), error_of(run, 2)


def handlers_are_tried_in_order():
    def handle(error):
        try:
            raise error
        except KeyError:
            return "key"
        except (IndexError, ZeroDivisionError) as e:
            return "pair", type(e).__name__
        except LookupError:
            return "lookup"
        except Exception as e:
            return "exception", str(e)
        except:
            return "bare"

    return [
        handle(e)
        for e in (KeyError(), IndexError(), ZeroDivisionError(), LookupError(), ValueError("v"), SystemExit())
    ]


def the_handler_name_is_deleted():
    try:
        raise ValueError(1)
    except ValueError as e:
        kept = e
    try:
        e
    except UnboundLocalError as unbound:
        return str(unbound), kept.args


def the_handler_name_may_be_deleted_or_reassigned_inside():
    try:
        raise ValueError
    except ValueError as e:
        del e
    try:
        raise KeyError
    except KeyError as e:
        e = 5
        kept = e
    return kept, "e" in locals()


def an_outer_handler_catches_what_the_inner_does_not():
    try:
        try:
            raise KeyError("k")
        except ValueError:
            print("not this one")
        finally:
            print("inner finally")
    except KeyError as e:
        return str(e)


def return_in_finally_replaces_the_return():
    def f():
        try:
            return "try"
        finally:
            return "finally"

    def g():
        try:
            return "try"
        finally:
            print("only side effects")

    return f(), g()


def return_in_finally_swallows_the_exception():
    def f():
        try:
            1 / 0
        finally:
            return "swallowed"

    return f()


def the_returned_value_is_fixed_before_finally_runs():
    def f():
        x = 1
        try:
            return x
        finally:
            x = 2

    def g():
        x = [1]
        try:
            return x
        finally:
            x.append(2)

    return f(), g()


def break_and_continue_in_finally():
    log = []
    for i in range(5):
        try:
            if i == 1:
                raise ValueError
            if i == 2:
                continue
            log.append(i)
        finally:
            if i == 1:
                continue
            if i == 3:
                break
    for i in range(3):
        try:
            1 / 0
        finally:
            break
    return log, i


def break_and_continue_leave_through_finally():
    log = []
    for i in range(4):
        try:
            if i == 1:
                continue
            if i == 3:
                break
        finally:
            log.append(f"finally {i}")
        log.append(f"end {i}")
    else:
        log.append("else")
    return log


def break_and_continue_in_an_except_clause():
    log = []
    for i in range(5):
        try:
            log.append(10 // (i - 1))
            if i == 3:
                raise KeyError(i)
        except ZeroDivisionError:
            continue
        except KeyError as e:
            log.append(e.args)
            break
    return log, sys.exc_info()


def return_in_an_except_clause():
    def f(items):
        for x in items:
            try:
                return 1 / x
            except ZeroDivisionError as e:
                if len(items) == 1:
                    return str(e)
        return "end"

    return f([0, 4]), f([0]), f([0, 0]), f([])


def nested_finally_blocks_run_inside_out():
    def f(how):
        try:
            try:
                try:
                    if how == "return":
                        return "value"
                    raise ValueError(how)
                finally:
                    print("1")
            finally:
                print("2")
        finally:
            print("3")

    return f("return"), error_of(f, "raise")


def an_exception_in_finally_replaces_and_remembers_the_first():
    def f():
        try:
            raise ValueError("first")
        finally:
            raise KeyError("second")

    try:
        f()
    except KeyError as e:
        return _chain(e)


def an_exception_in_a_handler_remembers_the_handled_one():
    try:
        try:
            raise ValueError("first")
        except ValueError:
            1 / 0
    except ZeroDivisionError as e:
        return _chain(e)


def raise_from_sets_the_cause():
    try:
        try:
            {}["missing"]
        except KeyError as e:
            raise _Custom("wrapped") from e
    except _Custom as e:
        return _chain(e), e.__cause__ is e.__context__


def raise_from_none_hides_the_context():
    try:
        try:
            {}["missing"]
        except KeyError:
            raise _Custom("clean") from None
    except _Custom as e:
        return _chain(e)


def raise_from_a_class_makes_an_instance():
    try:
        raise ValueError("v") from KeyError
    except ValueError as e:
        return _chain(e)


def raise_from_something_that_is_no_exception():
    return (
        error_of(_raise_from, 5),
        error_of(_raise_from, object),
        _chain(_caught(_raise_from, KeyError("ok"))),
    )


def _raise_from(cause):
    raise ValueError("v") from cause


def _caught(f, *args):
    try:
        f(*args)
    except BaseException as e:
        return e


def raising_things_that_are_no_exceptions():
    def raise_it(x):
        raise x

    class NoException:
        pass

    class ReturnsNone(Exception):
        def __new__(cls):
            return None

    return [error_of(raise_it, x) for x in (5, "text", None, NoException, NoException(), ReturnsNone, int)]


def raising_a_class_calls_it():
    class NeedsArgument(Exception):
        def __init__(self, x):
            super().__init__(x)

    def f():
        raise NeedsArgument

    def g():
        raise ValueError

    return error_of(f), error_of(g)


def bare_raise_raises_the_handled_exception_again():
    log = []
    try:
        try:
            raise ValueError("again")
        except ValueError as e:
            first = e
            log.append("handling")
            raise
    except ValueError as e:
        return log, e is first, e.__context__


def bare_raise_in_a_function_called_from_the_handler():
    def reraise():
        raise

    try:
        try:
            raise ValueError("from outside")
        except ValueError:
            reraise()
    except ValueError as e:
        return str(e)


def bare_raise_after_an_inner_handler_has_finished():
    try:
        try:
            raise ValueError("outer")
        except ValueError:
            try:
                raise KeyError("inner")
            except KeyError:
                pass
            raise
    except ValueError as e:
        return _chain(e)


def bare_raise_without_an_exception():
    raise


def contexts_of_nested_handlers():
    try:
        try:
            try:
                raise ValueError("1")
            except ValueError:
                raise KeyError("2")
        except KeyError:
            raise TypeError("3")
    except TypeError as e:
        return _chain(e)


def a_context_does_not_form_a_cycle():
    try:
        try:
            raise ValueError("a")
        except ValueError as a:
            try:
                raise KeyError("b")
            except KeyError:
                raise a
    except ValueError as e:
        return _chain(e)


def the_context_of_an_exception_raised_after_handling_is_none():
    try:
        raise ValueError
    except ValueError:
        pass
    try:
        raise KeyError
    except KeyError as e:
        return e.__context__


def a_function_called_from_a_handler_inherits_the_context():
    def helper():
        try:
            raise KeyError("inside helper")
        except KeyError as e:
            return _chain(e)

    try:
        raise ValueError("handled outside")
    except ValueError:
        return helper()


def exc_info_follows_the_handlers():
    def now():
        return sys.exc_info()[0] and sys.exc_info()[0].__name__

    seen = [now()]
    try:
        raise ValueError
    except ValueError:
        seen.append(now())
        try:
            raise KeyError
        except KeyError:
            seen.append(now())
        seen.append(now())
        try:
            seen.append(now())
        finally:
            seen.append(now())
    seen.append(now())
    try:
        try:
            raise IndexError
        finally:
            seen.append(now())
    except IndexError:
        seen.append(type(sys.exception()).__name__)
    seen.append(now())
    return seen


def an_exception_expression_in_except_is_evaluated_when_needed():
    def kinds(name, *types):
        print("evaluating", name)
        return types

    try:
        raise KeyError
    except kinds("first", ValueError, TypeError):
        return "first"
    except kinds("second", KeyError):
        return "second"
    except kinds("third", Exception):
        return "third"


def catching_something_that_is_no_exception_class():
    try:
        raise ValueError("original")
    except "text":
        pass


def catching_a_tuple_with_a_wrong_member():
    try:
        try:
            raise ValueError("original")
        except (KeyError, 5):
            pass
    except TypeError as e:
        return _chain(e)


def an_exception_in_else_is_not_caught_by_the_same_try():
    log = []
    try:
        try:
            pass
        except ValueError:
            log.append("wrong")
        else:
            raise ValueError("from else")
        finally:
            log.append("finally")
    except ValueError as e:
        log.append(str(e))
    return log


def exception_matching_uses_the_real_classes():
    class Meta(type):
        def __instancecheck__(cls, instance):
            return True

        def __subclasscheck__(cls, sub):
            return True

    class Claims(Exception, metaclass=Meta):
        pass

    try:
        raise ValueError("v")
    except Claims:
        return "fooled"
    except ValueError:
        return "real"


def attributes_of_exceptions():
    e = ValueError("a", 1)
    k = KeyError("key")
    o = OSError(2, "No such file", "name.txt")
    s = StopIteration(5)
    x = SystemExit(3)
    u = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")
    return [
        e.args,
        str(e),
        repr(e),
        str(k),
        repr(k),
        (o.errno, o.strerror, o.filename),
        type(o).__name__,
        s.value,
        x.code,
        str(u),
    ]


def exceptions_with_their_own_state():
    class HttpError(Exception):
        def __init__(self, status, message="", **extra):
            super().__init__(status, message)
            self.status, self.extra = status, extra

        def __str__(self):
            return f"{self.status} {self.args[1]}".strip()

    class NotFound(HttpError):
        def __init__(self, what):
            super().__init__(404, f"{what} not found", what=what)

    try:
        raise NotFound("page")
    except HttpError as e:
        return str(e), repr(e), e.args, e.extra, e.status


def notes_are_kept_in_order():
    e = ValueError("v")
    e.add_note("first")
    try:
        try:
            raise e
        except ValueError as caught:
            caught.add_note("second")
            raise
    except ValueError as caught:
        return caught.__notes__, error_of(lambda: caught.add_note(5)), caught.args


def an_exception_with_notes_leaves_the_program():
    try:
        int("x")
    except ValueError as e:
        e.add_note("while reading the configuration")
        raise


def a_chain_leaves_the_program():
    try:
        try:
            [][0]
        except IndexError as e:
            raise KeyError("second") from e
    finally:
        error_of(lambda: 1 / 0)


def an_implicit_context_leaves_the_program():
    try:
        {}["k"]
    except KeyError:
        int("not a number")


def a_suppressed_context_leaves_the_program():
    try:
        {}["k"]
    except KeyError:
        raise _Custom("replacement") from None


def system_exit_leaves_the_program():
    try:
        sys.exit("bye")
    except Exception:
        return "not caught by Exception"
    finally:
        print("finally")


def keyboard_interrupt_is_no_exception_subclass():
    try:
        try:
            raise KeyboardInterrupt("stop")
        except Exception:
            return "wrong"
    except BaseException as e:
        return type(e).__name__, e.args


def assertions():
    def check(x, *message):
        if message:
            assert x > 0, message[0]
        else:
            assert x > 0
        return "fine"

    return (
        check(1),
        error_of(check, 0),
        error_of(check, 0, "must be positive"),
        error_of(check, 0, ("a", "tuple")),
    )


def the_message_of_an_assertion_is_evaluated_only_on_failure():
    def message():
        print("evaluated")
        return "message"

    assert True, message()
    return error_of(lambda: _assert(False, message))


def _assert(condition, message):
    assert condition, message()


def an_assertion_leaves_the_program():
    values = [1, 2, 3]
    assert sum(values) == 7, f"sum is {sum(values)}"


def unbound_locals_and_missing_globals():
    def unbound():
        return x
        x = 1

    def deleted():
        x = 1
        del x
        return x

    def deleted_twice():
        x = 1
        del x
        del x

    def conditional(flag):
        if flag:
            x = 1
        return x

    def missing():
        return no_such_name

    def in_place():
        counter += 1

    def loop_variable():
        for i in []:
            pass
        return i

    return [
        error_of(f)
        for f in (unbound, deleted, deleted_twice, lambda: conditional(0), missing, in_place, loop_variable)
    ]


def an_unbound_local_leaves_the_program():
    if not error_of:
        total = 0
    total += 1
    return total


def a_missing_global_leaves_the_program():
    return undefined_thing + 1


def a_name_error_carries_the_name():
    try:
        missing_thing
    except NameError as e:
        return e.name, str(e), type(e).__name__


def deleting_a_missing_global():
    global _never_defined
    del _never_defined


def retry_until_it_works():
    attempts = []

    def flaky():
        attempts.append(len(attempts))
        if len(attempts) < 3:
            raise ConnectionError(f"attempt {len(attempts)}")
        return "connected"

    def retry(f, times):
        last = None
        for n in range(times):
            try:
                return f()
            except ConnectionError as e:
                last = e
                continue
            finally:
                attempts.append("f")
        raise RuntimeError(f"gave up after {times}") from last

    first = error_of(retry, flaky, 1)
    return first, retry(flaky, 5), attempts


def cleanup_stack_in_order():
    log = []

    def acquire(name, fail=False):
        if fail:
            raise RuntimeError(f"cannot acquire {name}")
        log.append(f"+{name}")
        return name

    def work(fail):
        a = acquire("a")
        try:
            b = acquire("b")
            try:
                c = acquire("c", fail)
                try:
                    return a + b + c
                finally:
                    log.append("-c")
            finally:
                log.append("-b")
        finally:
            log.append("-a")

    return work(False), error_of(work, True), log


def exceptions_as_control_flow_in_a_search():
    class Found(Exception):
        pass

    def search(tree, wanted, path=()):
        if tree == wanted:
            raise Found(path)
        if isinstance(tree, (list, tuple)):
            for i, child in enumerate(tree):
                search(child, wanted, (*path, i))

    def find(tree, wanted):
        try:
            search(tree, wanted)
        except Found as found:
            return found.args[0]
        return None

    tree = [1, [2, [3, 4]], (5, [6])]
    return find(tree, 4), find(tree, 6), find(tree, 7), find(1, 1)


def a_parser_with_good_errors():
    class ParseError(Exception):
        def __init__(self, message, position):
            super().__init__(f"{message} at {position}")
            self.position = position

    def parse(text):
        position = 0

        def peek():
            return text[position] if position < len(text) else None

        def expect(c):
            nonlocal position
            if peek() != c:
                raise ParseError(f"expected {c!r}, got {peek()!r}", position)
            position += 1

        def value():
            nonlocal position
            if peek() == "[":
                expect("[")
                items = []
                while peek() != "]":
                    items.append(value())
                    if peek() == ",":
                        expect(",")
                expect("]")
                return items
            start = position
            while (c := peek()) is not None and c.isdigit():
                position += 1
            try:
                return int(text[start:position])
            except ValueError as e:
                raise ParseError("expected a number", start) from e

        result = value()
        if peek() is not None:
            raise ParseError("trailing text", position)
        return result

    results = [parse("[1,[23,4],[]]")]
    for bad in ("[1", "[x]", "1]", ""):
        try:
            results.append(parse(bad))
        except ParseError as e:
            results.append((str(e), e.position, type(e.__cause__).__name__))
    return results


def stop_iteration_raised_by_next_is_an_ordinary_exception():
    it = iter([1])
    next(it)
    try:
        next(it)
    except StopIteration as e:
        return e.value, e.args, next(it, "default")


def try_in_a_loop_in_a_try_in_a_loop():
    log = []
    for i in range(3):
        try:
            for j in range(3):
                try:
                    if (i, j) == (0, 1):
                        raise KeyError
                    if (i, j) == (1, 1):
                        raise ValueError
                    if (i, j) == (2, 1):
                        break
                    log.append((i, j))
                except KeyError:
                    log.append("key")
                    continue
                finally:
                    log.append("f")
            else:
                log.append("inner else")
        except ValueError:
            log.append("value")
    return log


def with_traceback_and_traceback_attributes():
    e = ValueError("v")
    fresh = e.__traceback__ is None
    try:
        raise e
    except ValueError as caught:
        has = caught.__traceback__ is not None
        same = caught.with_traceback(None) is e
    return fresh, has, same, e.__traceback__ is None, error_of(lambda: e.with_traceback(5))


def the_traceback_names_the_functions_it_went_through():
    import traceback

    def inner():
        raise ValueError

    def outer():
        inner()

    try:
        outer()
    except ValueError as e:
        return [frame.name for frame in traceback.extract_tb(e.__traceback__)][-2:]


def exception_classes_with_multiple_inheritance():
    class NotThere(KeyError, AttributeError):
        pass

    results = []
    for kind in (KeyError, AttributeError, LookupError):
        try:
            raise NotThere("x")
        except kind as e:
            results.append((kind.__name__, str(e)))
    return results


def errors_of_builtin_operations():
    cases = [
        lambda: [][0],
        lambda: ()[5],
        lambda: {}["k"],
        lambda: int("x"),
        lambda: float("y"),
        lambda: "abc".index("z"),
        lambda: [1].remove(2),
        lambda: [].pop(),
        lambda: {}.popitem(),
        lambda: set().pop(),
        lambda: next(iter([])),
        lambda: chr(-1),
        lambda: ord("ab"),
        lambda: "a".encode("nope"),
        lambda: b"\xff".decode(),
        lambda: "é".encode("ascii"),
        lambda: range(0, 1, 0),
        lambda: [1, 2][::0],
        lambda: (1).to_bytes(0, "big"),
        lambda: max([]),
        lambda: dict([1]),
        lambda: {[]: 1},
        lambda: int("1", 99),
        lambda: bytes([256]),
        lambda: "{}".format(),
        lambda: "%d %d" % (1,),
        lambda: list(zip([1], [], strict=True)),
        lambda: [3, "a"].sort(),
        lambda: hash([]),
        lambda: round("x"),
        lambda: "x".join([1]),
        lambda: sum(["a"]),
        lambda: memoryview(5),
        lambda: int(float("inf")),
        lambda: 10.0**1000,
    ]
    return [error_of(case) for case in cases]
