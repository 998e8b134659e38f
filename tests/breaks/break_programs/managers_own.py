"""Breaks inside context managers of the program's own."""

import torch

from break_programs import RECORDS, Box, Manager, Trouble, case, fail, fail_if, program, values


@program
def own_manager(stop):
    def f(x, log):
        with Manager("a", log) as m:
            y = x * 2
            stop(y)
            log.append(m.name)
        stop(y)
        return y + 1

    return f, []


@program
def several_own_managers(stop):
    def f(x, log):
        with Manager("a", log), Manager("b", log) as b, Manager("c", log):
            log.append(stop(x * 2))
            with Manager("d", log):
                log.append(stop(b.name))
            log.append(stop(x))
        return x + 1

    return f, []


@program
def exception_through_own_managers(stop):
    def f(x, log):
        with Manager("a", log):
            with Manager("b", log):
                log.append(stop(x * 2))
                raise Trouble("through")

    return f, []


@program
def exception_is_swallowed_by_the_outer_manager(stop):
    def f(x, log):
        y = x * 2
        with Manager("a", log, Trouble), Manager("b", log, KeyError):
            stop(y)
            fail("swallowed")
            log.append("never")
        stop(y)
        return y + 1

    return f, []


@program
def exception_on_data_in_a_manager():
    def f(x, log):
        y = x * 2
        with Manager("a", log, Trouble):
            fail_if(y.sum() < 0, "negative")
            y = y + 1
        log.append(y)
        return y * 2

    return f, []


@program
def return_break_and_continue_leave_managers(stop):
    def f(x, log):
        for n in range(4):
            with Manager(n, log):
                x = x + 1
                if n == 0:
                    stop(n)
                    continue
                with Manager("inner", log):
                    if n == 1:
                        stop(n)
                        break
        with Manager("last", log):
            return stop(x) * 2

    return f, []


@program
def manager_in_a_loop_with_return(stop):
    def f(x, log):
        for n in range(3):
            with Manager(n, log):
                if stop(n) == 1:
                    return x * n
                log.append(x + n)

    return f, []


@program
def manager_whose_enter_and_exit_break(stop):
    class Breaks:
        def __init__(self, log):
            self.log = log

        def __enter__(self):
            self.log.append("enter")
            return stop(self.log)

        def __exit__(self, *error):
            self.log.append(stop("exit"))

    def f(x, log):
        with Breaks(log) as same:
            y = x * 2
            same.append(y)
        with Breaks(log):
            raise Trouble("through")

    return f, []


@program
def manager_whose_enter_raises():
    class Refuses:
        def __enter__(self):
            fail("no entry")

        def __exit__(self, *error):
            RECORDS.append("never")

    def f(x, log):
        y = x * 2
        try:
            with Manager("a", log), Refuses():
                log.append("never")
        except Trouble:
            log.append(y)
        return y + 1

    return f, []


@program
def manager_whose_exit_raises(stop):
    class Fails:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            stop(0)
            raise Trouble("in exit")

    def f(x, log):
        with Manager("a", log):
            with Fails():
                log.append(stop(x * 2))
                raise KeyError("in body")

    return f, []


@program
def manager_object_is_reused(stop):
    def f(x, m):
        with m:
            x = x * 2
            stop(x)
            with m:
                x = stop(x) + 1
        with m as same:
            stop(same.name)
        return x, m.log[-1]

    return f, Manager("again", [])


@program
def manager_made_before_the_break(stop):
    def f(x, log):
        m = Manager("m", log)
        y = x * 2
        stop(y)
        with m:
            y = y + 1
            stop(y)
        return y * 2

    return f, []


@program
def manager_entered_by_hand(stop):
    def f(x, log):
        m = Manager("m", log)
        m.__enter__()
        y = x * 2
        stop(y)
        m.__exit__(None, None, None)
        g = torch.no_grad()
        g.__enter__()
        z = y + x
        stop(z)
        g.__exit__(None, None, None)
        return z, x * 2

    return case(f, [], inputs=values(grad=True))


@program
def manager_with_a_target_that_is_an_attribute(stop):
    def f(x, box, log):
        with Manager("a", log) as box.manager, Manager("b", log) as (box.items[0]):
            box.value = x * 2
            stop(x)
        return box.manager.name + box.items[0].name, box.value + 1

    return f, Box(items=[None]), []


@program
def manager_that_changes_what_the_body_reads(stop):
    class Scaled:
        def __init__(self, box, by):
            self.box, self.by = box, by

        def __enter__(self):
            self.before, self.box.scale = self.box.scale, self.by

        def __exit__(self, *error):
            self.box.scale = self.before

    def f(x, box):
        a = x * box.scale
        with Scaled(box, 5):
            b = x * box.scale
            stop(b)
            c = x * box.scale
        return a, b, c, x * box.scale

    return f, Box(scale=2)
