"""Frames and tracebacks, as the program finds them."""

import sys
import traceback
import types

from programs import error_of


def _names(tb):
    names = []
    while tb is not None:
        names.append(tb.tb_frame.f_code.co_name)
        tb = tb.tb_next
    return names


def _fails(divisor):
    doubled = divisor * 2
    return 1 / divisor + doubled


def the_frames_of_a_traceback_have_their_variables():
    try:
        _fails(0)
    except ZeroDivisionError as e:
        inner = e.__traceback__.tb_next.tb_frame
        return _names(e.__traceback__), dict(inner.f_locals), inner.f_lineno - inner.f_code.co_firstlineno


def the_frame_of_a_traceback_is_the_one_that_runs():
    try:
        raise ValueError
    except ValueError as e:
        frame = e.__traceback__.tb_frame
        return frame is sys._getframe(), frame.f_back is sys._getframe(1)


def the_line_of_a_frame_is_where_it_first_raised():
    def fails():
        try:
            try:
                1 / 0
            finally:
                pass
        except KeyError:
            pass

    def uses_with():
        with open(__file__):
            1 / 0

    lines = []
    for fn in (fails, uses_with):
        try:
            fn()
        except ZeroDivisionError as e:
            frame = e.__traceback__.tb_next.tb_frame
            lines.append(frame.f_lineno - frame.f_code.co_firstlineno)
    return lines


def a_traceback_of_ones_own():
    try:
        raise ValueError
    except ValueError as e:
        tb = types.TracebackType(e.__traceback__, sys._getframe(), 1, 7)
        return _names(tb), tb.tb_lineno, tb.tb_frame is sys._getframe()


def cleared_frames_let_go_of_their_variables():
    try:
        _fails(0)
    except ZeroDivisionError as e:
        traceback.clear_frames(e.__traceback__)
        return dict(e.__traceback__.tb_next.tb_frame.f_locals), error_of(e.__traceback__.tb_frame.clear)


def the_stack_has_the_programs_frames():
    def inner():
        return [entry.name for entry in traceback.extract_stack()[-2:]]

    return inner(), traceback.format_stack(limit=1)[0].splitlines()[1]


def variables_in_a_formatted_traceback():
    try:
        _fails(0)
    except ZeroDivisionError as e:
        found = traceback.TracebackException.from_exception(e, capture_locals=True)
        return found.stack[1].locals


def the_frame_of_a_call_that_has_returned():
    def inner():
        kept = 1
        return sys._getframe()

    frame = inner()
    found = dict(frame.f_locals)
    frame.clear()
    return found, dict(frame.f_locals)


def a_recursion_error_has_a_context():
    def deeper():
        try:
            1 / 0
        except ZeroDivisionError:
            deeper()

    try:
        deeper()
    except RecursionError as e:
        return type(e.__context__).__name__


def a_suspended_generator_has_a_frame_without_a_caller():
    def g():
        yield sys._getframe().f_back is not None

    it = g()
    before = it.gi_frame.f_back
    return before, next(it), it.gi_frame.f_back


def clearing_the_frame_of_a_generator_closes_it():
    def g():
        try:
            yield 1
        finally:
            print("closed")

    it = g()
    next(it)
    return error_of(it.gi_frame.clear), error_of(next, it)  # from 3.13 on it is an error
