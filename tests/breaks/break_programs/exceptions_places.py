"""Breaks in every part of a try statement."""

import sys

from break_programs import Trouble, program


@program(all)
def in_the_body(stop):
    def f(x, log):
        try:
            y = x * 2
            stop(y)
            log.append(y)
            raise Trouble("after")
        except Trouble as error:
            return y + 1, error.args

    return f, []


@program
def in_the_body_without_an_exception(stop):
    def f(x):
        y = x * 2
        try:
            z = stop(y) + 1
        except Trouble:
            z = None
        return z - y

    return f


@program
def in_the_handler(stop):
    def f(x, log):
        y = x * 2
        try:
            raise Trouble("in the body", 3)
        except Trouble as error:
            log.append(y)
            stop(y)
            y = y + error.code
        return y, sys.exc_info()

    return f, []


@program
def in_the_else(stop):
    def f(x):
        try:
            y = x * 2
        except ValueError:
            y = None
        else:
            y = stop(y) + 1
            stop(y)
        return y * 2

    return f


@program
def in_the_finally(stop):
    def f(x, log):
        try:
            y = x * 2
            log.append("body")
        finally:
            stop(y)
            log.append(y + 1)
        return y - 1

    return f, []


@program
def in_the_finally_while_an_exception_passes(stop):
    def f(x, log):
        y = x * 2
        try:
            log.append(y)
            raise Trouble("passes", y.shape[0])
        finally:
            log.append(stop(y) + 1)
            stop(y)
            log.append("end")

    return f, []


@program
def in_all_parts(stop):
    def f(x, log):
        for n in range(2):
            try:
                log.append(("body", stop(x * n)))
                if n:
                    raise KeyError(stop(n))
            except KeyError as error:
                log.append(("except", stop(error.args)))
            else:
                log.append(("else", stop(x + n)))
            finally:
                log.append(("finally", stop(n)))
        return x * 2

    return f, []


@program
def in_nested_tries(stop):
    def f(x, log):
        try:
            try:
                log.append(stop(x * 2))
                raise KeyError("inner")
            except ValueError:
                log.append("wrong")
            finally:
                log.append(stop("inner finally"))
        except KeyError as error:
            try:
                stop(1)
                raise ValueError("in the handler") from error
            except ValueError as second:
                log.append((str(second), second.__cause__ is error))
            log.append(stop(x + 1))
        finally:
            log.append(stop("outer finally"))
        return x - 1

    return f, []


@program
def in_the_expression_that_is_matched(stop):
    def f(x):
        y = x * 2
        try:
            raise Trouble("x")
        except stop(KeyError):
            y = None
        except (ValueError, stop(Trouble)):
            y = y + 1
        return y * 2

    return f
