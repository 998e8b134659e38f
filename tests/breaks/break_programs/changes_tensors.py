"""Breaks after which tensors, modules or torch's switches are not as they were."""

import contextvars
import random
import threading

import torch

import framelift
from break_programs import case, halt, matrices, program, values

# Changes to tensors


@program
def values_of_tensors_change():
    @framelift.disable
    def edit(t):
        t.copy_(torch.arange(3.0))

    def f(x):
        y = x * 2
        v = y[1:]
        edit(y)
        a = y + v.sum()
        edit(x)
        return a, x * 2, v

    return f


@program
def shape_of_a_tensor_changes():
    @framelift.disable
    def edit(t):
        t.data = torch.ones(2, 3)

    def f(x):
        y = x * 2
        a = y.sum(0)
        edit(y)
        edit(x)
        return a, y.sum(0), x.shape, y.shape

    return f


@program
def shape_of_a_tensor_changes_in_place():
    @framelift.disable
    def edit(t):
        t.t_()
        t.unsqueeze_(0)

    def f(m):
        y = m * 2
        edit(y)
        edit(m)
        return y + 1, m.shape, y.stride()

    return case(f, inputs=matrices())


@program
def requires_grad_of_a_tensor_changes():
    @framelift.disable
    def edit(t):
        t.requires_grad_(not t.requires_grad)

    def f(x):
        y = (x * 2).detach()
        edit(y)
        z = y * 3
        z.sum().backward()
        g = y.grad
        edit(y)
        return z.detach(), g, y * 2

    return f


@program
def gradient_of_a_tensor_changes():
    @framelift.disable
    def edit(t):
        t.grad = torch.ones(3) if t.grad is None else None

    def f(x):
        had = x.grad is None
        y = x.detach() * 2
        edit(x)
        z = y + (x.grad if x.grad is not None else 5)
        edit(x)
        return z, had, x.grad is None

    return case(f, inputs=values(grad=True))


@program
def attributes_of_a_tensor_change():
    @framelift.disable
    def edit(t, n):
        t.note = n

    def f(x):
        y = x * 2
        edit(y, 3)
        z = y * y.note
        edit(y, "word")
        return z, y.note, hasattr(z, "note")

    return f


@program
def module_changes():
    @framelift.disable
    def edit(m):
        m.weight = torch.nn.Parameter(torch.ones(2, 3))
        m.bias = None
        m.scale = 3
        m.eval()

    def f(x, m):
        a = m(x)
        edit(m)
        b = m(x) * m.scale
        return a, b, m.training

    return f, torch.nn.Linear(3, 2)


@program
def hook_is_added():
    @framelift.disable
    def edit(m):
        return m.register_forward_hook(lambda module, args, output: output * 10)

    def f(x, m):
        a = m(x * 2)
        handle = edit(m)
        b = m(x * 2)
        handle.remove()
        return a, b, m(x + 1)

    return f, torch.nn.ReLU()


# Changes to torch's state


@program
def grad_mode_changes():
    @framelift.disable
    def switch(on):
        torch.set_grad_enabled(on)

    def f(x):
        a = x * 2
        switch(False)
        b = x * 2
        halt(b)
        c = b + x
        switch(True)
        return a, b, c, x * 3

    return case(f, inputs=values(grad=True))


@program
def grad_mode_changes_inside_a_manager():
    @framelift.disable
    def switch(on):
        torch.set_grad_enabled(on)

    def f(x):
        with torch.no_grad():
            a = x * 2
            switch(True)
            b = x * 2
        return a, b, x * 3, torch.is_grad_enabled()

    return case(f, inputs=values(grad=True))


@program
def manager_is_entered_by_the_break():
    managers = []

    @framelift.disable
    def enter():
        managers.append(torch.no_grad())
        managers[-1].__enter__()

    @framelift.disable
    def leave():
        managers.pop().__exit__(None, None, None)

    def f(x):
        enter()
        try:
            a = x * 2
            halt(a)
            b = a + x
        finally:
            leave()
        return a, b, x * 3

    return case(f, inputs=values(grad=True))


@program
def default_dtype_changes():
    @framelift.disable
    def switch(dtype):
        torch.set_default_dtype(dtype)

    def f(x):
        a = torch.ones(3) + x
        switch(torch.float64)
        b = torch.ones(3) + x
        switch(torch.float32)
        return a, b, torch.ones(1)

    return f


@program
def autocast_changes():
    @framelift.disable
    def switch(on):
        torch.set_autocast_enabled("cpu", on)

    def f(m):
        a = m @ m.T
        switch(True)
        try:
            b = m @ m.T
            halt(b)
            c = b @ m
        finally:
            switch(False)
            torch.clear_autocast_cache()
        return a, b, c

    return case(f, inputs=matrices())


@program
def random_seed_changes():
    @framelift.disable
    def seed(n):
        torch.manual_seed(n)
        random.seed(n)

    def f(x):
        a = torch.rand(3) + x
        seed(3)
        b = torch.rand(3) + random.random()
        seed(3)
        c = torch.rand(3) + random.random()
        return a, b, c, torch.equal(b, c)

    return f


@program
def context_variable_changes():
    variable = contextvars.ContextVar("scale", default=2)

    @framelift.disable
    def put(n):
        return variable.set(n)

    def f(x):
        a = x * variable.get()
        token = put(5)
        b = x * variable.get()
        variable.reset(token)
        return a, b, x * variable.get()

    return f


@program
def generator_leaves_its_mode_to_the_consumer(stop):
    def numbers(x):
        with torch.no_grad():
            yield x * 2
            yield x * 3

    def f(x):
        g = numbers(x)
        a = next(g)
        stop(a)
        b = x * 2
        c = list(g)
        return a, b, c, x * 3, torch.is_grad_enabled()

    return case(f, inputs=values(grad=True))


@program
def thread_runs_a_callee(stop):
    def work(v, results):
        w = v * 2
        results.append(w + 1)

    def f(x):
        results = []
        y = x + 1
        thread = threading.Thread(target=work, args=(y, results))
        thread.start()
        thread.join()
        stop(y)
        return results, y * 2

    return f
