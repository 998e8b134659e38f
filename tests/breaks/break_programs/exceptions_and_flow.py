"""Breaks on the way through finally, loops, generators, groups and managers."""

import framelift
from break_programs import RECORDS, Box, Trouble, case, fail, fail_if, halt, program, values

# finally


@program
def return_passes_through_finally(stop):
    def f(x, log):
        y = x * 2
        try:
            return stop(y) + 1
        finally:
            log.append(stop(y))
            y = None

    return f, []


@program
def return_in_finally_wins(stop):
    def f(x, log):
        y = x * 2
        try:
            stop(y)
            raise Trouble("swallowed")
        finally:
            log.append(y)
            return stop(y + 1)

    return f, []


@program
def return_in_finally_replaces_a_return(stop):
    def f(x):
        y = x * 2
        try:
            return stop(y)
        finally:
            if y.ndim:
                return stop(y + 1)

    return f


@program
def break_and_continue_pass_through_finally(stop):
    def f(x, log):
        for n in range(4):
            try:
                if n == 1:
                    continue
                if n == 3:
                    break
                x = stop(x) * 2
            finally:
                log.append((n, stop(x)))
        return x + 1

    return f, []


@program
def break_and_continue_in_finally_swallow(stop):
    def f(x, log):
        for n in range(4):
            try:
                stop(x)
                raise Trouble("swallowed", n)
            finally:
                log.append(x * n)
                stop(n)
                if n == 2:
                    break
                continue
        return x + 1

    return f, []


@program
def exception_in_finally_replaces(stop):
    def f(x, log):
        y = x * 2
        try:
            raise KeyError("first")
        finally:
            log.append(stop(y))
            fail("in finally")

    return f, []


@program
def nested_finallys_run_in_order(stop):
    def f(x, log):
        y = x * 2
        try:
            try:
                try:
                    return stop(y) + 1
                finally:
                    log.append(("inner", stop(y)))
            finally:
                log.append(("middle", stop(1)))
                fail_if(y.sum() < 0)
        finally:
            log.append(("outer", stop(2)))

    return f, []


@program
def finally_on_the_way_of_data():
    def f(x, log):
        y = x * 2
        try:
            if y.sum() > 0:
                return y + 1
            if y.sum() < 0:
                raise Trouble("negative")
            y = y + 5
        finally:
            log.append(y)
            if y[0] > 0:
                log.append("first is positive")
        return y - 1

    return f, []


# Loops, generators, groups


@program
def retry_until_it_works():
    attempts = 0

    @framelift.disable
    def flaky(y):
        nonlocal attempts
        attempts += 1
        if attempts % 3:
            raise Trouble("not yet", attempts)
        return y * 2

    def f(x, log):
        y = x + 1
        while True:
            try:
                y = flaky(y)
                break
            except Trouble as error:
                log.append(error.code)
                y = y + 1
        return y

    return f, []


@program
def handler_in_a_loop_keeps_the_last(stop):
    def f(x):
        last = None
        for n in range(3):
            try:
                x = x + 1
                raise Trouble("n", stop(n))
            except Trouble as error:
                error.before = last
                last = error
                stop(x)
        return x, last.code, last.before.code, last.__context__

    return f


@program
def throwing_into_a_generator(stop):
    def numbers(x, log):
        try:
            yield stop(x * 2)
        except Trouble as error:
            log.append(error.code)
            stop(1)
            yield x + error.code
        finally:
            log.append("closed")

    def f(x, log):
        g = numbers(x, log)
        a = next(g)
        stop(a)
        b = g.throw(Trouble("thrown", 4))
        g.close()
        return a + b

    return f, []


@program
def generator_raises_after_a_break(stop):
    def numbers(x):
        yield x * 2
        stop(x)
        raise Trouble("in the generator")

    def f(x, log):
        try:
            for v in numbers(x):
                log.append(v + 1)
        except Trouble as error:
            log.append(error)
        return x - 1

    return f, []


@program
def exception_groups_with_breaks(stop):
    def f(x, log):
        y = x * 2
        try:
            stop(y)
            raise ExceptionGroup("several", [ValueError(1), KeyError(2), Trouble("three", 3)])
        except* ValueError as group:
            log.append(("value", stop(len(group.exceptions))))
        except* (KeyError, Trouble) as group:
            log.append(("others", [type(e).__name__ for e in group.exceptions], stop(y)))
        return y + 1

    return f, []


@program
def exception_group_is_raised_in_parts(stop):
    def f(x, log):
        try:
            raise ExceptionGroup("several", [ValueError(1), Trouble("left")])
        except* ValueError as group:
            log.append(stop(x * 2))
            raise KeyError("instead") from group

    return f, []


@program
def exception_group_from_the_break():
    @framelift.disable
    def several():
        raise ExceptionGroup("several", [Trouble("a", 1), Trouble("b", 2), TypeError("c")])

    def f(x, log):
        y = x * 2
        try:
            several()
        except* Trouble as group:
            log.append([e.code for e in group.exceptions])
            halt(y)
        except* TypeError:
            log.append(y + 1)
        return y - 1

    return f, []


@program
def parts_of_a_group_are_other_ones_in_each_call(stop):
    def f(x, box):
        box.count += 1
        try:
            raise ExceptionGroup("several", [ValueError(box.count), KeyError(stop(1))])
        except* ValueError as group:
            box.seen = group.exceptions[0].args
        except* LookupError:
            pass
        return x + 1

    return case(f, Box(count=0), inputs=values() * 2)


@program
def what_a_group_was_made_of_changes(stop):
    def f(x, log):
        errors = [ValueError(1), KeyError(2)]
        group = ExceptionGroup("several", errors)
        errors.clear()
        log.append(stop(x * 2))
        return [error.args for error in group.exceptions], group.args[1] is errors

    return f, []


@program
def group_from_before_is_raised_in_parts(stop):
    def f(x, log):
        count = len(log)
        try:
            try:
                group = ExceptionGroup("several", [ValueError(count), TypeError(count), KeyError(count)])
                stop(x)
                raise group
            except* ValueError:
                stop(x)
                raise
            except* TypeError:
                log.append(stop(count))
        except ExceptionGroup as left:
            log.append([error.args for error in left.exceptions])
        return x + count

    return f, []


@program
def plain_exception_is_caught_by_a_group_handler(stop):
    def f(x, log):
        try:
            fail_if(x.sum() > -100, "plain")
        except* Trouble as group:
            log.append((len(group.exceptions), stop(x * 2)))
        return x + 1

    return f, []


@program
def managers_that_swallow(stop):
    class Swallow:
        def __init__(self, kind):
            self.kind = kind

        def __enter__(self):
            return self

        def __exit__(self, kind, error, tb):
            stop(0)
            self.error = error
            return kind is not None and issubclass(kind, self.kind)

    def f(x, log):
        y = x * 2
        with Swallow(Trouble) as s:
            log.append(y)
            stop(y)
            fail("swallowed", 6)
        log.append(s.error.code)
        with Swallow(KeyError):
            stop(y)
            raise Trouble("passes")

    return f, []


@program
def effects_before_the_exception_stay(stop):
    def f(x, items, table, box):
        items.append(x * 2)
        table["a"] = items[-1]
        stop(x)
        box.value = table["a"] + 1
        x.mul_(2)
        stop(x)
        del table["a"]
        raise Trouble("after all that")

    return f, [], {}, Box()


@program
def effects_after_a_caught_exception(stop):
    def f(x, box):
        y = x * 2
        try:
            box.before = y
            stop(y)
            box.between = y + 1
            1 // 0
            box.never = y
        except ZeroDivisionError:
            box.handled = stop(y)
        box.after = box.between - 1
        return box.before is box.handled

    return f, Box()


@program
def recursion_error_is_not_provoked_by_deep_calls(stop):
    def down(n, v):
        return stop(v) if n == 0 else down(n - 1, v) + 1

    def f(x):
        y = x * 2
        return down(60, y) - 1

    return f


@program
def handlers_at_every_depth(stop):
    def third(v, log):
        try:
            stop(v)
            raise KeyError("third")
        except ValueError:
            log.append("wrong")

    def second(v, log):
        try:
            third(v * 2, log)
        except KeyError as error:
            log.append(stop(error.args))
            raise Trouble("second") from error

    def f(x, log):
        try:
            second(x + 1, log)
        except Trouble as error:
            log.append((stop(1), error))
        return x * 2

    return f, []


@program
def same_exception_object_is_raised_twice(stop):
    error = Trouble("one object")

    def f(x, log):
        for n in range(2):
            try:
                stop(x)
                raise error
            except Trouble as caught:
                log.append((caught is error, x * n))
        return x + 1

    return f, []


@program
def unbound_local_after_an_exception(stop):
    def f(x, log):
        try:
            fail_if(x.sum() <= 0)
            y = x * 2
        except Trouble:
            log.append(stop(x))
        stop(x)
        return y + 1

    return f, []


@program
def keyword_arguments_of_the_exception(stop):
    def f(x):
        try:
            stop(x * 2)
            return x.no_such_attribute
        except AttributeError as error:
            return error.name, error.obj is x, x + 1

    return f


@program
def name_error_after_the_break(stop):
    def f(x, log):
        y = x * 2
        log.append(y)
        stop(y)
        return y + no_such_name

    return case(f, [], inputs=values())


@program
def type_error_of_a_call_after_the_break(stop):
    def takes_two(a, b):
        return a

    def f(x, log):
        y = x * 2
        stop(y)
        try:
            takes_two(y)
        except TypeError as error:
            log.append(str(error))
        RECORDS.append("before")
        return takes_two(y, y, y)

    return f, []
