"""Effects on tensors and modules on both sides of breaks."""

import torch

from break_programs import Box, case, change, matrices, program, values

# Tensors


@program
def in_place_on_an_argument(stop):
    def f(x):
        x.add_(1)
        stop(x)
        x.mul_(2)
        y = x + 1
        stop(y)
        x[0] = 5.0
        return y - x

    return f


@program
def in_place_on_a_view_of_an_argument(stop):
    def f(x):
        v = x[1:]
        v.add_(1)
        stop(v)
        v *= 2
        w = x.view(3, 1)
        stop(w)
        w[0, 0] = 9
        return v, w, x * 1

    return f


@program
def argument_is_changed_by_the_break_between_reads():
    def f(x):
        v = x[:2]
        y = x * 2
        change(x)
        z = x * 2 + v.sum()
        change(v)
        return y, z, x + 0, v

    return f


@program
def two_arguments_share_memory(stop):
    def f(x, v):
        x.add_(1)
        y = v * 2
        stop(v)
        v.mul_(3)
        return y, x + 0

    calls = []
    for base in values():
        calls.append((base, base[1:]))
    return case(f, calls=calls)


@program
def same_tensor_twice_as_an_argument(stop):
    def f(a, b):
        a.add_(1)
        y = b * 2
        stop(a)
        b.mul_(2)
        return y, a is b, a - 1

    a, b, c = values()
    return case(f, calls=[(a, a), (b, c), (c, c)])


@program
def tensors_are_kept_and_changed_in_later_calls(stop):
    def f(x, box):
        if box.last is not None:
            box.last.add_(1)
        stop(x)
        box.last = x * 2
        box.all.append(box.last)
        stop(box.last)
        box.last.mul_(2)
        return box.last is box.all[-1]

    return f, Box(last=None, all=[])


@program
def set_data_and_resize(stop):
    def f(x):
        y = torch.zeros(2)
        y.data = x * 2
        stop(y)
        z = y + 1
        y.copy_(z)
        stop(y)
        z.zero_()
        return y, z

    return f


@program
def out_arguments(stop):
    def f(x, out):
        torch.mul(x, 2, out=out)
        stop(out)
        torch.add(out, 1, out=out)
        return out - x

    return f, torch.zeros(3)


@program
def attributes_of_tensors_survive(stop):
    def f(x, kept):
        x.tag = len(kept)
        y = x * 2
        y.source = x
        stop(y)
        y.tag = x.tag + 1
        kept.append(y)
        stop(x)
        del x.tag
        return y.source is x, hasattr(x, "tag")

    return f, []


@program
def requires_grad_is_switched(stop):
    def f(x):
        x.requires_grad_()
        y = x * 2
        stop(y)
        x.requires_grad_(False) if y.requires_grad is False else None
        z = (y * y).sum()
        z.backward()
        return z.detach(), x.grad + 1

    return f


@program
def gradients_are_assigned_and_cleared(stop):
    def f(x, w):
        loss = (w * x).sum()
        loss.backward()
        stop(loss)
        g = w.grad
        w.grad = None
        stop(g)
        w.grad = g * 2
        stop(w.grad)
        w.grad.add_(1)
        return g + w.grad

    return f, torch.ones(3, requires_grad=True)


@program
def gradients_accumulate_across_breaks(stop):
    def f(x, w):
        (w * x).sum().backward()
        stop(w.grad)
        (w * w).sum().backward()
        stop(w.grad)
        return w.grad * 2

    return f, torch.ones(3, requires_grad=True)


@program
def parameters_are_updated_by_hand(stop):
    def f(x, layer):
        loss = layer(x).sum()
        loss.backward()
        stop(loss)
        with torch.no_grad():
            for p in layer.parameters():
                p -= 0.1 * p.grad
                p.grad = None
        stop(loss)
        return layer(x).detach()

    return f, torch.nn.Linear(3, 2)


# Modules


@program
def buffers_and_parameters_are_registered(stop):
    def f(x, m):
        if not hasattr(m, "scale"):
            m.register_buffer("scale", x * 2)
            stop(x)
            m.register_parameter("weight", torch.nn.Parameter(x + 1))
            m.add_module("layer", torch.nn.ReLU())
        stop(x)
        m.scale = m.scale + 1
        return m.layer(x * m.scale) * m.weight, [name for name, _ in m.named_parameters()]

    return f, torch.nn.Module()


@program
def submodules_are_swapped(stop):
    def f(x, m):
        y = m[0](x)
        stop(y)
        m[0], m[1] = m[1], m[0]
        z = m[0](y)
        stop(z)
        m.append(torch.nn.Tanh())
        return m(z), len(m)

    return f, torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())


@program
def running_statistics(stop):
    class Norm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(2))
            self.register_buffer("count", torch.tensor(0))

        def forward(self, m):
            self.count += 1
            stop(m)
            self.mean.mul_(0.9).add_(m.mean(0), alpha=0.1)
            stop(self.mean)
            return m - self.mean, self.count + 0

    return case(Norm(), inputs=matrices())


@program
def batch_norm_around_a_break(stop):
    def f(m, norm):
        a = norm(m)
        stop(a)
        norm.eval()
        b = norm(m)
        stop(b)
        norm.train()
        return a + b, norm.num_batches_tracked + 0

    return case(f, torch.nn.BatchNorm1d(2), inputs=matrices())


@program
def training_step_with_a_print():
    def f(x, model, optimizer, losses):
        optimizer.zero_grad()
        loss = (model(x) - 1).pow(2).mean()
        print("loss", round(loss.item(), 4))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        return model(x).detach()

    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    return f, model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), []


@program
def training_step_with_breaks_between_everything(stop):
    def f(x, model, optimizer):
        stop(x)
        loss = model(x).pow(2).sum()
        stop(loss)
        loss.backward()
        stop(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        stop(loss)
        optimizer.zero_grad()
        return loss.detach() + 1

    model = torch.nn.Linear(3, 2)
    return f, model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


@program
def training_loop_until_small():
    def f(x, model, optimizer):
        for step in range(5):
            loss = (model(x) - x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if loss.item() < 0.1:
                break
        return step, loss.detach()

    model = torch.nn.Linear(3, 3)
    return f, model, torch.optim.SGD(model.parameters(), lr=0.2)


@program
def hooks_are_registered_and_removed(stop):
    def f(x, m, log):
        handle = m.register_forward_hook(lambda module, args, output: log.append(output))
        y = m(x)
        stop(y)
        handle.remove()
        z = m(y)
        stop(z)
        return z + len(log)

    return f, torch.nn.ReLU(), []


@program
def tensor_hooks_run_in_backward(stop):
    def f(x, log):
        y = x * 2
        y.register_hook(lambda g: log.append(g) or g * 3)
        stop(y)
        z = y.sum() + x.sum()
        z.backward()
        return x.grad + 1

    return case(f, [], inputs=values(grad=True))


@program
def state_dict_is_saved_and_loaded(stop):
    def f(x, m):
        saved = {name: value.clone() for name, value in m.state_dict().items()}
        with torch.no_grad():
            m.weight.mul_(2)
        y = m(x)
        stop(y)
        m.load_state_dict(saved)
        return y - m(x)

    return f, torch.nn.Linear(3, 2)


@program
def module_mode_and_attributes(stop):
    def f(x, m):
        m.eval()
        y = m(x)
        stop(m.training)
        m.train()
        m.p = 0.0
        z = m(x)
        stop(z)
        m.p = 0.5
        return y + z, m.training

    return f, torch.nn.Dropout(0.5)
