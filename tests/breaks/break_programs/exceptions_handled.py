"""Exceptions that are raised again, chained, looked at and kept around a break."""

import sys
import traceback

import framelift
from break_programs import Box, Trouble, by_print, fail, program

# Raising again


@program
def bare_raise_after_a_break(stop):
    def f(x, log):
        y = x * 2
        try:
            raise Trouble("again", 1)
        except Trouble:
            log.append(stop(y))
            raise

    return f, []


@program
def bare_raise_of_what_the_break_raised():
    def f(x, log):
        y = x * 2
        try:
            fail("again", 2)
        except Trouble as error:
            error.note = "seen"
            error.add_note("a note")
            log.append(y + 1)
            raise

    return f, []


@program
def bare_raise_in_a_function_called_by_the_handler(stop):
    def again():
        stop(1)
        raise

    def f(x, log):
        y = x * 2
        try:
            raise Trouble("again")
        except Trouble:
            log.append(y)
            stop(y)
            again()

    return f, []


@program
def bare_raise_without_an_exception(stop):
    def f(x, log):
        log.append(x * 2)
        stop(x)
        raise

    return f, []


@program
def bare_raise_after_the_handler_ended(stop):
    def f(x, log):
        try:
            raise KeyError("gone")
        except KeyError:
            log.append(stop(x * 2))
        stop(x)
        raise

    return f, []


@program
def raise_from_after_a_break(stop):
    def f(x, log):
        y = x * 2
        try:
            {}["k"]
        except KeyError as error:
            log.append(y)
            stop(y)
            raise Trouble("from") from error

    return f, []


@program
def raise_from_none_after_a_break(stop):
    def f(x):
        y = x * 2
        try:
            {}["k"]
        except KeyError:
            stop(y)
            raise Trouble("from none") from None

    return f


@program
def context_is_what_is_being_handled(stop):
    def f(x, log):
        y = x * 2
        try:
            raise KeyError("first")
        except KeyError:
            stop(y)
            try:
                raise ValueError("second")
            except ValueError:
                stop(y)
                fail("third")

    return f, []


@program
def context_of_an_exception_raised_by_the_break_in_a_handler():
    def f(x, log):
        try:
            raise KeyError("first")
        except KeyError:
            try:
                fail("second")
            except Trouble as error:
                log.append(error)
                log.append((type(error.__context__).__name__, x * 2))
        return x + 1

    return f, []


@program
def context_chain_through_finally(stop):
    def f(x, log):
        try:
            try:
                raise KeyError("first")
            finally:
                stop(x * 2)
                raise ValueError("in finally")
        except ValueError as error:
            log.append(error)
            stop(x)
            raise Trouble("last") from error

    return f, []


@program
def no_context_after_the_handler(stop):
    def f(x, log):
        try:
            raise KeyError("first")
        except KeyError:
            stop(x * 2)
        stop(x)
        try:
            raise ValueError("second")
        except ValueError as error:
            log.append(error.__context__)
        return x + 1

    return f, []


# What is being handled


@program
def the_name_is_gone_after_the_handler(stop):
    def f(x):
        y = x * 2
        try:
            raise Trouble("x")
        except Trouble as error:
            stop(y)
            kept = error
        stop(y)
        try:
            return error
        except UnboundLocalError as unbound:
            return str(unbound), kept.args, y + 1

    return f


@program
def the_name_is_deleted_in_the_handler(stop):
    def f(x):
        y = x * 2
        try:
            raise Trouble("x")
        except Trouble as error:
            stop(y)
            del error
            stop(y)
        return y + 1

    return f


@program
def exc_info_in_the_handler(stop):
    def f(x, log):
        y = x * 2
        log.append(sys.exc_info())
        try:
            raise Trouble("x", 1)
        except Trouble as error:
            stop(y)
            kind, value, tb = sys.exc_info()
            log.append((kind, value is error, sys.exception() is error, tb is error.__traceback__))
        log.append(sys.exc_info())
        return y + 1

    return f, []


@program
def exc_info_inside_the_break():
    @framelift.disable
    def handled():
        return type(sys.exception()).__name__

    def f(x, log):
        y = x * 2
        log.append(handled())
        try:
            raise Trouble("x")
        except Trouble:
            log.append(handled())
            try:
                raise KeyError("y")
            except KeyError:
                log.append(handled())
            log.append(handled())
        log.append(handled())
        try:
            y = y + 1
        finally:
            log.append(handled())
        return y

    return f, []


@program
def exc_info_in_nested_handlers(stop):
    def now():
        stop(0)
        return type(sys.exception()).__name__

    def f(x, log):
        try:
            raise KeyError(1)
        except KeyError:
            stop(x * 2)
            try:
                raise ValueError(2)
            except ValueError:
                log.append(now())
                stop(x)
            log.append(now())
        log.append(now())
        return x + 1

    return f, []


@program
def traceback_is_printed_in_the_handler():
    def inner(y):
        by_print(y)
        raise Trouble("inner")

    def f(x):
        y = x * 2
        try:
            inner(y)
        except Trouble as error:
            lines = traceback.format_exception_only(error)
            found = [(entry.name, entry.lineno) for entry in traceback.extract_tb(error.__traceback__)]
            return y + 1, lines, found

    return f


@program
def exceptions_are_stored(stop):
    def f(x, box):
        y = x * 2
        try:
            raise Trouble("stored", 5)
        except Trouble as error:
            box.error = error
            stop(y)
            box.errors.append(error)
        box.code = box.error.code
        return y + box.code, box.error is box.errors[-1]

    return f, Box(error=None, errors=[])


@program
def exception_is_made_before_and_raised_after(stop):
    def f(x, log):
        y = x * 2
        error = Trouble("made", 3)
        error.payload = y
        stop(y)
        log.append(error)
        try:
            raise error
        except Trouble as caught:
            log.append(caught is error)
        stop(y)
        raise error

    return f, []


@program
def exception_of_an_earlier_call_is_raised_again(stop):
    def f(x, box):
        y = x * 2
        stop(y)
        if box.error is not None:
            raise box.error
        try:
            raise Trouble("kept")
        except Trouble as error:
            box.error = error
        return y + 1

    return f, Box(error=None)


@program
def exception_with_its_own_attributes(stop):
    class Detailed(ValueError):
        def __init__(self, message, *, tensor):
            super().__init__(message)
            self.tensor = stop(tensor)

        def __str__(self):
            return f"{stop(self.args[0])} ({self.tensor.shape[0]})"

    def f(x, log):
        try:
            raise Detailed("detailed", tensor=x * 2)
        except ValueError as error:
            log.append(str(error))
            return error.tensor + 1

    return f, []
