"""Breaks inside torch's context managers."""

import contextlib

import torch

from break_programs import Trouble, case, fail, halt, modes, program, values


@program
def no_grad(stop):
    def f(x):
        with torch.no_grad():
            y = x * 2
            stop(y)
            modes()
            z = y + 1
        return z * x, y.requires_grad, torch.is_grad_enabled()

    return case(f, inputs=values(grad=True))


@program
def enable_grad_inside_no_grad(stop):
    def f(x):
        with torch.no_grad():
            a = x * 2
            with torch.enable_grad():
                b = x * 3
                stop(b)
                modes()
                c = b + 1
            stop(c)
            d = c * 2
        return a, b, c, d, [t.requires_grad for t in (a, b, c, d)]

    return case(f, inputs=values(grad=True))


@program
def set_grad_enabled_as_a_manager(stop):
    def f(x, flag):
        with torch.set_grad_enabled(flag):
            y = x * 2
            stop(y)
            z = y + 1
        return z.requires_grad, z, torch.is_grad_enabled()

    a, b, c = values(grad=True)
    return case(f, calls=[(a, True), (b, False), (c, True)])


@program
def set_grad_enabled_as_a_call(stop):
    def f(x):
        torch.set_grad_enabled(False)
        try:
            y = x * 2
            stop(y)
            modes()
            z = y + 1
        finally:
            torch.set_grad_enabled(True)
        stop(z)
        return z, x * 3

    return case(f, inputs=values(grad=True))


@program
def inference_mode(stop):
    def f(x):
        with torch.inference_mode():
            y = x * 2
            stop(y)
            modes()
            z = y + 1
        return z.is_inference(), z.clone() + 1, torch.is_inference_mode_enabled()

    return f


@program
def autocast(stop):
    def f(m):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = m @ m.T
            stop(a)
            modes()
            b = a @ m
            with torch.autocast("cpu", enabled=False):
                c = stop(m) @ m.T
        return a, b, c, m @ m.T

    return case(f, inputs=[torch.outer(x, x) for x in values()])


@program
def exception_through_no_grad(stop):
    def f(x, log):
        try:
            with torch.no_grad():
                log.append(x * 2)
                stop(x)
                raise Trouble("through")
        except Trouble:
            log.append(torch.is_grad_enabled())
        return x * 3

    return case(f, [], inputs=values(grad=True))


@program
def exception_of_the_break_through_no_grad():
    def f(x, log):
        with torch.no_grad():
            log.append(x * 2)
            fail("through")

    return case(f, [], inputs=values(grad=True), state=None)


@program
def return_from_inside_no_grad(stop):
    def f(x):
        with torch.no_grad():
            y = x * 2
            return stop(y) + 1

    def g(x):
        return f(x), x * 2, torch.is_grad_enabled()

    return case(g, inputs=values(grad=True))


@program
def no_grad_as_a_decorator(stop):
    @torch.no_grad()
    def inner(x):
        y = x * 2
        stop(y)
        return y + 1

    def f(x):
        return inner(x), x * 2, torch.is_grad_enabled()

    return case(f, inputs=values(grad=True))


@program
def no_grad_decorates_the_function_under_test(stop):
    @torch.no_grad()
    def f(x):
        y = x * 2
        stop(y)
        modes()
        return y + 1

    return case(f, inputs=values(grad=True))


@program
def no_grad_in_the_caller(stop):
    def inner(x):
        y = x * 2
        stop(y)
        modes()
        return y + 1

    def f(x):
        with torch.no_grad():
            a = inner(x)
        b = inner(x)
        return a, b, a.requires_grad, b.requires_grad

    return case(f, inputs=values(grad=True))


@program
def no_grad_chosen_by_data():
    def f(x):
        y = x * 2
        with torch.no_grad() if y.sum() > 0 else contextlib.nullcontext():
            z = y + x
            halt(z)
            modes()
        return z * x

    return case(f, inputs=values(grad=True))


@program
def detect_anomaly(stop):
    def f(x):
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            y = (x * 2).sum()
            stop(y)
            y.backward()
        return torch.is_anomaly_enabled(), y.detach()

    return case(f, inputs=values(grad=True))


@program
def default_dtype_is_changed_and_put_back(stop):
    def f(x):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            y = torch.ones(3) * 2
            stop(y)
            z = torch.zeros(3) + y
        finally:
            torch.set_default_dtype(before)
        return z, torch.ones(1) + x

    return f


@program
def random_state_is_forked(stop):
    def f(x):
        a = torch.rand(3)
        with torch.random.fork_rng():
            torch.manual_seed(7)
            b = torch.rand(3)
            stop(b)
            c = torch.rand(3)
        return x + a, b, c, torch.rand(3)

    return f


@program
def saved_tensors_hooks(stop):
    def f(x, log):
        def pack(t):
            log.append(tuple(t.shape))
            return t * 1

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            y = x * x
            stop(y)
            z = y * x
        z.sum().backward()
        return z.detach(), len(log)

    return case(f, [], inputs=values(grad=True))
