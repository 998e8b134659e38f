"""Exceptions before, at and after a break."""

import sys
import traceback

import torch

import framelift
from break_programs import Leaving, Trouble, fail, fail_if, program


@program
def the_break_raises_and_the_function_catches():
    def f(x, log):
        y = x * 2
        log.append(y)
        try:
            fail("caught", 7)
            log.append("never")
        except Trouble as error:
            log.append(error.code)
            y = y + error.code
        return y - 1

    return f, []


@program
def the_break_raises_in_an_expression_and_the_function_catches():
    def f(x, log):
        y = x * 2
        try:
            log.append(y + fail("caught") * y)
        except Trouble as error:
            log.append(error)
        return y + 1, len(log)

    return f, []


@program
def the_break_raises_on_some_calls():
    def f(x, log):
        y = x * 2
        try:
            fail_if(y.sum() < 0, "negative")
            y = y + 1
        except Trouble as error:
            log.append(str(error))
            y = y - 1
        else:
            log.append("fine")
        finally:
            log.append(y)
        return y * 2

    return f, []


@program
def the_break_raises_and_nobody_catches():
    def f(x, log):
        y = x * 2
        log.append(y)
        x.add_(1)
        fail("nobody", 2)
        return y

    return f, []


@program
def the_break_raises_and_the_caller_catches():
    def inner(x, log):
        y = x * 2
        log.append(y)
        fail("from inner", 4)

    def f(x, log):
        y = x + 1
        try:
            inner(y, log)
        except Trouble as error:
            log.append((error.code, [entry.name for entry in traceback.extract_tb(error.__traceback__)][:2]))
        return y * 2

    return f, []


@program
def the_break_raises_three_frames_below():
    def third(x):
        fail_if(x.sum() > 0, "third")
        return x * 3

    def second(x, log):
        try:
            return third(x * 2)
        finally:
            log.append("second")

    def first(x, log):
        y = second(x, log)
        log.append("first")
        return y

    def f(x, log):
        try:
            return first(x + 1, log)
        except Trouble as error:
            log.append(error)
            return x - 1

    return f, []


@program
def the_wrong_handler_lets_it_pass(stop):
    def f(x, log):
        y = x * 2
        try:
            stop(y)
            fail("passes")
        except (KeyError, ValueError):
            log.append("wrong")
        finally:
            log.append(y)

    return f, []


@program
def an_operator_raises_before_the_break(stop):
    def f(x, log):
        y = x * 2
        try:
            1 // (y.ndim - 1)
            stop(y)
        except ZeroDivisionError as error:
            log.append(str(error))
            stop(y)
        return y + 1

    return f, []


@program
def an_operator_raises_after_the_break(stop):
    def f(x, log):
        y = x * 2
        log.append(y)
        stop(y)
        z = y + 1
        log.append(z)
        return {}["missing"]

    return f, []


@program
def torch_raises_after_the_break(stop):
    def f(x, log):
        y = x * 2
        stop(y)
        try:
            y @ torch.ones(5, 5)
        except RuntimeError as error:
            log.append(type(error).__name__)
        return y + torch.ones(4)

    return f, []


@program
def tensor_operation_raises_and_its_text_is_read():
    def multiply(y, log):
        log.append(y)
        return y @ torch.ones(5, 5)

    def f(x, log):
        y = x * 2
        for operation in (lambda: multiply(y, log), lambda: y + "text", lambda: torch.cat([y, y[None]])):
            try:
                operation()
            except (RuntimeError, TypeError) as error:
                log.append(str(error))
        return y + 1

    return f, []


@program
def tensor_operation_raises_on_data():
    def f(x, log):
        y = x * 2
        log.append(y)
        try:
            index = y.sum().long().abs()
            log.append(y[index])
        except IndexError as error:
            log.append(type(error).__name__)
        return y + 1

    return f, []


@program
def exception_from_a_dunder(stop):
    class Thing:
        def __add__(self, other):
            stop(other)
            raise Trouble("no addition")

        def __getattr__(self, name):
            stop(name)
            raise AttributeError(f"no {name}")

        def __bool__(self):
            stop(0)
            raise Trouble("no truth")

    def f(x, log):
        t, y = Thing(), x * 2
        for attempt in (lambda: t + y, lambda: t.name, lambda: not t, lambda: getattr(t, "other", "default")):
            try:
                log.append(attempt())
            except (Trouble, AttributeError) as error:
                log.append(error.args)
        return y + 1

    return f, []


@program
def base_exceptions_pass(stop):
    def f(x, log):
        y = x * 2
        try:
            stop(y)
            raise Leaving("out") if y.ndim == 1 else SystemExit(2)
        except Exception:
            log.append("wrong")
        finally:
            log.append(y)

    return f, []


@program
def system_exit_from_the_break():
    @framelift.disable
    def leave(code):
        sys.exit(code)

    def f(x, log):
        log.append(x * 2)
        try:
            leave(3)
        except Exception:
            log.append("wrong")
        finally:
            log.append(x + 1)

    return f, []


@program
def stop_iteration_from_a_break():
    @framelift.disable
    def advance(it):
        return next(it)

    def f(x, log):
        it = iter([x * 2])
        y = advance(it) + 1
        try:
            advance(it)
        except StopIteration:
            log.append("end")
        return y, [advance(iter([n])) for n in (1, 2)]

    return f, []


@program
def assertion_on_data_is_caught():
    def f(x, log):
        y = x * 2
        try:
            assert y.sum() > 0, y.sum().item()
        except AssertionError as error:
            log.append(error.args)
            y = y + 5
        return y - 1

    return f, []
