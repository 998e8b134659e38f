"""Small programs as people write them, each called with sizes from 0 or 1 to 20.

Compilations are counted: what has not changed is a constant, then comes one capture for all sizes, and those
for 0 and 1, for which operators do something else. Where there are more, the program branches. Results and
arguments are eager's at each size.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import math
import operator
from typing import NamedTuple

import pytest
import torch
from sizes_of_programs import ABOVE_ONE, FROM_ZERO, Programs
from torch import nn
from torch.nn import functional as F

PROGRAMS = Programs()
program = PROGRAMS.add
randn = torch.randn


class Span(NamedTuple):
    a: int
    b: int


@dataclasses.dataclass
class Settings:
    n: int
    scale: float = 1.0


@program(lambda n: (randn(2, n, 8), randn(2, 3 * n + 1, 8), randn(2, 3 * n + 1, 8)))
def attend_cache(q, k, v):
    mask = torch.arange(k.shape[1])[None] <= torch.arange(k.shape[1] - q.shape[1], k.shape[1])[:, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@program(lambda n: (randn(2, n, 8), randn(2, n + 2, 8)))
def cat_cache(x, past):
    kv = torch.cat([past, x], 1)
    return kv, kv.shape[1], kv[:, -x.shape[1] :]


@program(lambda n: (torch.zeros(2, 64, 4), randn(2, n, 4), n))
def write_cache(cache, x, pos):
    cache[:, pos : pos + x.shape[1]] = x
    return cache[:, : pos + x.shape[1]].sum(1)


@program(lambda n: (torch.zeros(2, 64, 4), randn(2, 1, 4), n), captures=2)
def write_one(cache, x, pos):
    cache.index_copy_(1, torch.tensor([pos]), x)
    return cache[:, : pos + 1]


@program(lambda n: (torch.randint(0, 9, (n, 6)),))
def left_pad_mask(ids):
    mask = (ids != 0).long()
    pos = mask.cumsum(-1) - 1
    pos.masked_fill_(mask == 0, 1)
    return pos, mask.sum(-1).max()


@program(lambda n: (randn(4, n),))
def top_k_sampling(logits):
    k = min(5, logits.size(-1))
    v, _ = logits.topk(k)
    logits = logits.masked_fill(logits < v[:, -1:], float("-inf"))
    return logits.softmax(-1).argmax(-1)


@program(lambda n: (randn(4, n),), captures=4)
def top_p(logits):
    s, i = logits.sort(descending=True)
    c = s.softmax(-1).cumsum(-1)
    remove = c > 0.9
    remove[..., 1:] = remove[..., :-1].clone()
    remove[..., 0] = False
    return logits.masked_fill(remove.scatter(1, i, remove), -1e9)


@program(lambda n: (torch.randint(0, 9, (2, n)), 0.7 + n / 10))
def repetition_penalty(ids, penalty):
    scores = torch.ones(2, 10)
    s = scores.gather(1, ids)
    s = torch.where(s < 0, s * penalty, s / penalty)
    return scores.scatter(1, ids, s)


@program(lambda n: (randn(n * 3, 7), n), captures=2, sizes=ABOVE_ONE)
def beams(scores, batch):
    beams = scores.shape[0] // batch
    s = scores.view(batch, beams * scores.shape[-1])
    top, idx = s.topk(2 * beams)
    return top, idx // scores.shape[-1], idx % scores.shape[-1]


@program(lambda n: (randn(1, n, 4, 8),))
def rope(x):
    n, d = x.shape[1], x.shape[-1]
    inv = 1.0 / (10000 ** (torch.arange(0, d, 2).float() / d))
    f = torch.outer(torch.arange(n).float(), inv)
    cos, sin = f.cos()[None, :, None], f.sin()[None, :, None]
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


@program(lambda n: (n, 4))
def alibi(n, heads):
    slopes = torch.tensor([2 ** (-8 * (i + 1) / heads) for i in range(heads)])
    return slopes[:, None, None] * (torch.arange(n)[None] - torch.arange(n)[:, None])


@program(lambda n: (randn(2, n, 4),), captures=2, sizes=ABOVE_ONE)
def sliding_window(x):
    n = x.shape[1]
    i = torch.arange(n)
    m = (i[:, None] - i[None] < 4) & (i[:, None] >= i[None])
    return (x @ x.transpose(1, 2)).masked_fill(~m, -1e9).softmax(-1)


@program(lambda n: (randn(2, n, 4),), captures=4)
def chunked_attention(x, size=4):
    pad = (size - x.shape[1] % size) % size
    x = F.pad(x, (0, 0, 0, pad))
    b, n, d = x.shape
    y = x.view(b, n // size, size, d)
    return (y @ y.transpose(-1, -2)).flatten(1, 2)[:, : n - pad]


@program(lambda n: (randn(2, n, 4),))
def pad_to_multiple(x):
    m = math.ceil(x.shape[1] / 8) * 8
    return F.pad(x, (0, 0, 0, m - x.shape[1])), m


@program(lambda n: (randn(2, n, 4),))
def pow2(x):
    m = 1 << (x.shape[1] - 1).bit_length()
    return F.pad(x, (0, 0, 0, m - x.shape[1]))


@program(lambda n: (torch.randint(0, 50, (2, n)), torch.randint(0, 50, (2, n))), captures=4)
def token_loss(tokens, labels):
    torch.manual_seed(0)
    logits = F.one_hot(tokens, 50).float()
    loss = F.cross_entropy(logits[:, :-1].reshape(-1, 50), labels[:, 1:].reshape(-1), reduction="sum")
    return loss / max(1, labels[:, 1:].numel())


@program(lambda n: (randn(2, n, 9), torch.randint(0, 9, (2, n)), n * 2))
def loss_num_items(logits, labels, num_items):
    return F.cross_entropy(logits.view(-1, 9), labels.view(-1), reduction="sum", ignore_index=3) / num_items


@program(lambda n: (randn(2, n, 9), torch.randint(0, 9, (2, n)), torch.tensor(n * 2)))
def loss_num_tensor(logits, labels, num_items):
    return F.cross_entropy(logits.view(-1, 9), labels.view(-1), reduction="sum") / num_items


@program(lambda n: (torch.rand(n, 4), torch.rand(3, 4)), captures=4, sizes=FROM_ZERO)
def box_iou(a, b):
    area = lambda x: (x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1])
    lt, rb = torch.max(a[:, None, :2], b[:, :2]), torch.min(a[:, None, 2:], b[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[..., 0] * wh[..., 1]
    return inter / (area(a)[:, None] + area(b) - inter + 1e-6)


@program(lambda n: ([torch.rand(k, 4) for k in (n, n + 1, 2)],), captures=4, sizes=FROM_ZERO)
def batch_boxes(boxes):
    ids = torch.cat([torch.full((len(b), 1), float(i)) for i, b in enumerate(boxes)])
    return torch.cat([ids, torch.cat(boxes)], 1)


@program(lambda n: (randn(1, 3, 8 * n, 16),), captures=2, sizes=ABOVE_ONE)
def grid_anchors(x):
    h, w = x.shape[-2] // 4, x.shape[-1] // 4
    ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    return torch.stack([xs, ys], -1).view(-1, 2) * 4


@program(lambda n: (randn(1, 3, 4 * n, 6 * n), randn(1, 3, 2 * n, 3 * n)), captures=2, sizes=ABOVE_ONE)
def upsample_add(a, b):
    return a + F.interpolate(b, size=a.shape[-2:], mode="nearest")


@program(lambda n: (randn(1, 3, 4 * n, 6 * n),), captures=2, sizes=ABOVE_ONE)
def down_half(a):
    return F.interpolate(a, scale_factor=0.5, mode="bilinear", align_corners=False)


@program(lambda n: (randn(1, 3, n + 4, n + 7),), captures=2)
def adaptive(x):
    return F.adaptive_avg_pool2d(x, 2), F.adaptive_max_pool2d(x, (1, 1))


@program(lambda n: (randn(1, 3, n + 4, n + 7),), captures=2)
def same_padding(x):
    h, w = x.shape[-2:]
    ph, pw = (max((math.ceil(s / 2) - 1) * 2 + 3 - s, 0) for s in (h, w))
    return F.pad(x, [pw // 2, pw - pw // 2, ph // 2, ph - ph // 2])


@program(lambda n: ([torch.rand(3, n + 2, n + 5), torch.rand(3, n + 4, n)],))
def nested_image(images):
    size = [max(s) for s in zip(*[i.shape for i in images])]
    out = torch.zeros(len(images), *size)
    mask = torch.ones(len(images), *size[1:], dtype=torch.bool)
    for im, o, m in zip(images, out, mask):
        o[: im.shape[0], : im.shape[1], : im.shape[2]].copy_(im)
        m[: im.shape[1], : im.shape[2]] = False
    return out, mask


@program(lambda n: (torch.rand(n, 5), [n // 2, n - n // 2]), captures=4, sizes=FROM_ZERO)
def split_list(x, sizes):
    return [t.sum(0) for t in x.split(sizes)]


@program(lambda n: (torch.rand(n * 2, 5),), captures=2)
def split_symbol(x):
    return x.split(x.shape[0] // 2)


@program(lambda n: (torch.rand(n, 6),))
def chunk3(x):
    return x.chunk(2, -1), x.chunk(3, 1)


@program(lambda n: (torch.rand(n, 6),), captures=2, sizes=ABOVE_ONE)
def chunk_dim(x):
    return x.chunk(2)


@program(lambda n: (torch.rand(n, 4), torch.rand(n), 0.3))
def nms_loop(boxes, scores, thr):
    order = scores.argsort(descending=True)
    return boxes[order[: min(3, len(order))]]


@program(lambda n: (torch.rand(10, n),), captures=4, sizes=FROM_ZERO)
def hungarian_cost(cost):
    return cost.min(0).values if cost.shape[1] else cost.sum()


@program(
    lambda n: ([{"boxes": torch.rand(k, 4), "labels": torch.arange(k)} for k in (n, 2)],),
    captures=4,
    sizes=FROM_ZERO,
)
def targets(ts):
    sizes = [len(t["labels"]) for t in ts]
    return (
        torch.cat([t["labels"] for t in ts]),
        torch.cat([t["boxes"] for t in ts]),
        sum(sizes) / len(ts),
        torch.as_tensor([sum(sizes)], dtype=torch.float),
    )


@program(lambda n: (randn(n, 4), torch.randint(0, n, (2, 3 * n))))
def message(x, edge):
    out = torch.zeros_like(x).index_add(0, edge[1], x[edge[0]])
    deg = torch.zeros(x.shape[0]).scatter_add(0, edge[1], torch.ones(edge.shape[1]))
    return out / deg.clamp(min=1)[:, None]


@program(lambda n: (randn(3 * n, 4), torch.arange(n).repeat_interleave(3), n))
def scatter_mean(x, batch, dim_size):
    out = x.new_zeros(dim_size, x.shape[1]).scatter_add_(0, batch[:, None].expand_as(x), x)
    count = torch.bincount(batch, minlength=dim_size)
    return out / count[:, None]


@program(lambda n: (randn(3 * n, 4), torch.arange(n).repeat_interleave(3), n), captures=2)
def segment_softmax(x, index, num):
    mx = torch.full((num, 4), float("-inf")).scatter_reduce(0, index[:, None].expand(-1, 4), x, "amax")
    e = (x - mx[index]).exp()
    s = torch.zeros(num, 4).scatter_add(0, index[:, None].expand(-1, 4), e)
    return e / s[index]


@program(lambda n: (torch.randint(0, n, (2, 3 * n)), n))
def self_loops(edge, n):
    loop = torch.arange(n).unsqueeze(0).repeat(2, 1)
    return torch.cat([edge, loop], 1)


@program(lambda n: (torch.randint(0, n, (2, 3 * n)), randn(n, 2)))
def gcn_norm(edge, x):
    n = x.size(0)
    row, col = edge
    deg = torch.zeros(n).index_add_(0, col, torch.ones(col.size(0)))
    d = deg.pow(-0.5)
    d[d == float("inf")] = 0
    return torch.zeros(n, 2).index_add_(0, col, (d[row] * d[col])[:, None] * x[row])


@program(lambda n: (randn(n, 4), [0, n // 2, n]))
def ptr_list(x, ptr):
    return [x[a:b].sum(0) for a, b in zip(ptr, ptr[1:])]


@program(lambda n: ([randn(n, 3), randn(n + 2, 3), randn(4, 3)],))
def collate(xs):
    batch = torch.cat([torch.full((x.shape[0],), i) for i, x in enumerate(xs)])
    cum = list(itertools.accumulate((x.shape[0] for x in xs), initial=0))
    return torch.cat(xs), batch, cum


@program(lambda n: (randn(n, 3),))
def knn(x):
    d = torch.cdist(x, x)
    return d.topk(min(3, x.size(0)), largest=False).indices


@program(lambda n: ([randn(n, 3), randn(n + 2, 3)],))
def padseq(xs):
    return nn.utils.rnn.pad_sequence(xs, batch_first=True), torch.tensor([len(x) for x in xs])


@program(lambda n: (randn(2, n + 4, 3),))
def unfold_windows(x):
    return x.unfold(1, 4, 2).mean(-1)


@program(lambda n: (randn(2, n + 4),), captures=2)
def moving_average(x, k=3):
    return F.avg_pool1d(F.pad(x[:, None], (k - 1, 0), mode="replicate"), k, 1)[:, 0]


@program(lambda n: (randn(2, n + 4),), captures=2)
def fft_blocks(x):
    f = torch.fft.rfft(x)
    return torch.fft.irfft(f, n=x.shape[-1]), f.shape[-1]


@program(lambda n: (randn(2, n + 4, 3),), captures=2)
def autocorrelation(x):
    k = int(2 * math.log(x.shape[1]))
    c = torch.fft.irfft(torch.fft.rfft(x, dim=1) * torch.conj(torch.fft.rfft(x, dim=1)), n=x.shape[1], dim=1)
    return c.mean(-1).topk(k, dim=-1).values


@program(lambda n: (randn(2, n + 6),), captures=2)
def patches(x, size=4, stride=2):
    num = (x.shape[-1] - size) // stride + 1
    return x[:, : size + stride * (num - 1)].unfold(-1, size, stride), num


@program(lambda n: (randn(n, 2),))
def ewma(x):
    w = 0.9 ** torch.arange(x.shape[0] - 1, -1, -1).float()
    return (x * w[:, None]).sum(0) / w.sum()


@program(lambda n: (randn(2, n, 3), torch.tensor([n, max(n - 1, 0)])))
def length_mask(x, lengths):
    m = torch.arange(x.shape[1])[None] < lengths[:, None]
    return (x * m[..., None]).sum(1) / lengths.clamp(min=1)[:, None]


@program(lambda n: (randn(2, n, 3), torch.tensor([n, max(n - 1, 1)])))
def last_valid(x, lengths):
    return x[torch.arange(x.shape[0]), lengths - 1]


@program(lambda n: (randn(n, 3),), captures=4)
def diffs(x):
    return x[1:] - x[:-1], torch.diff(x, dim=0), x.roll(1, 0)


@program(lambda n: (randn(1, 4, 8 * n, 8), 4), captures=2)
def window_partition(x, w):
    b, c, h, ww = x.shape
    y = x.view(b, c, h // w, w, ww // w, w).permute(0, 2, 4, 3, 5, 1).reshape(-1, w, w, c)
    back = y.view(b, h // w, ww // w, w, w, c).permute(0, 5, 1, 3, 2, 4).reshape(b, c, h, ww)
    return y, back


@program(lambda n: (randn(1, 7 + n, 9, 4), 4), captures=2)
def window_pad(x, w):
    b, h, ww, c = x.shape
    x = F.pad(x, (0, 0, 0, (w - ww % w) % w, 0, (w - h % w) % w))
    hp, wp = x.shape[1:3]
    mask = torch.zeros(1, hp, wp, 1)
    cnt = 0
    for hs in (slice(0, -w), slice(-w, -2), slice(-2, None)):
        for wsl in (slice(0, -w), slice(-w, -2), slice(-2, None)):
            mask[:, hs, wsl] = cnt
            cnt += 1
    return torch.roll(x, (-2, -2), (1, 2))[:, :h, :ww], mask


@program(lambda n: (randn(2, 4 * n, 8),))
def pixel(x):
    b, n, d = x.shape
    return x.reshape(b, n // 4, 4 * d), F.pixel_shuffle(x.view(b, 4, n // 4, -1, 2)[:, :, :, :, 0], 2)


@program(lambda n: (randn(2, 3, n + 3, n + 3),), captures=2)
def unfold_fold(x):
    u = F.unfold(x, 3, padding=1)
    return F.fold(u, x.shape[-2:], 3, padding=1)


@program(lambda n: (randn(1, 2, n + 2, n + 2), randn(1, 5, 6, 2)), captures=2)
def grid_sample(x, g):
    return F.grid_sample(x, g, align_corners=False)


@program(lambda n: (randn(1, 16, 4), n + 1), captures=2)
def interpolate_pos(pos, n):
    p_ = pos.reshape(1, 4, 4, -1).permute(0, 3, 1, 2)
    return F.interpolate(p_, size=(n, n), mode="bicubic").flatten(2).transpose(1, 2)


@program(lambda n: (randn(1, n * n, 4),))
def sqrt_side(x):
    h = int(math.sqrt(x.shape[1]))
    return x.transpose(1, 2).reshape(1, 4, h, h)


@program(lambda n: (randn(1, n * n, 4),))
def pow_side(x):
    h = w = int(x.shape[1] ** 0.5)
    assert h * w == x.shape[1], "not square"
    return x.view(1, h, w, 4)


@program(lambda n: (randn(n, 4),))
def tri_mask(x):
    n = x.shape[0]
    m = torch.full((n, n), float("-inf")).triu_(1)
    return (x @ x.T + m).softmax(-1) @ x


@program(lambda n: (randn(2, n, 4), torch.ones(2, n, dtype=torch.bool)))
def extended_mask(x, m):
    e = (1.0 - m[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
    return (x @ x.transpose(1, 2) + e[:, 0]).softmax(-1)


@program(lambda n: (randn(n, 4), 0.1 * n))
def float_arg(x, lr):
    return x * lr, lr * 2, x.add(x, alpha=lr)


@program(lambda n: (randn(3, 4), 0.1 * n), captures=2)
def float_only(x, lr):
    return x - lr * x.sign(), lr / 2 + 1, math.exp(-lr)


@program(lambda n: (randn(3, 4), 0.1 * n, n), captures=2)
def float_and_int(x, lr, step):
    bias = 1 - 0.9**step
    return x * (lr / bias), math.sqrt(1 - 0.999**step)


@program(lambda n: (randn(3, 4), n), captures=2)
def cosine_schedule(x, step):
    lr = 0.5 * (1 + math.cos(math.pi * step / 100))
    return x * lr


@program(lambda n: (randn(3, 4), n), captures=2)
def warmup(x, step):
    lr = min(step / 10, 1.0)
    return x * lr


@program(lambda n: (randn(3, 4), n), captures=2)
def noam(x, step):
    return x * (8**-0.5 * min((step + 1) ** -0.5, (step + 1) * 4**-1.5))


@program(lambda n: (randn(3, 4), [0.1 * n, 0.2 * n]), captures=2)
def float_list(x, ws):
    return sum(x * w for w in ws)


@program(lambda n: (randn(3, 4), {"lr": 0.1 * n, "step": n}), captures=2)
def float_dict(x, group):
    group["step"] += 1
    return x * group["lr"] / group["step"]


@program(lambda n: (randn(n, 4),))
def dataclass_made(x):
    c = Settings(x.shape[0])
    d = dataclasses.replace(c, scale=2.0)
    return x * d.n, d, dataclasses.asdict(d), dataclasses.astuple(c)


@program(lambda n: (randn(n, 4),))
def namedtuple_made(x):
    s = Span(0, x.shape[0])
    t = s._replace(a=1)
    return x[t.a : t.b], t, s + t, max(s)


@program(lambda n: (Span(1, n), randn(25, 3)), captures=4)
def namedtuple_arg(s, x):
    return x[s.a : s.b] * (s.b - s.a)


@program(lambda n: (randn(n, 4),))
def functools_reduce(x):
    return functools.reduce(operator.mul, x.shape), functools.partial(torch.full, (x.shape[0],))(2.0)


@program(lambda n: (randn(n, 4),))
def itertools_things(x):
    n = x.shape[0]
    pairs = list(itertools.pairwise(itertools.accumulate([0, n, n])))
    prod = [a * b for a, b in itertools.product([n, 2], [3, n])]
    ch = list(itertools.chain([n], (n + 1,)))
    return (
        pairs,
        prod,
        ch,
        list(itertools.zip_longest([n], [1, 2], fillvalue=n)),
        x.view(*itertools.islice(x.shape, 2)),
    )


@program(lambda n: (randn(n, 4),), captures=4)
def sorted_min_max(x):
    n, m = x.shape
    return sorted([n, m, 6]), min(n, m), max(n, 3, m), x.sum()


@program(lambda n: (randn(n, 4),))
def any_all(x):
    return x * 2 if any(s > 100 for s in x.shape) or all(s >= 0 for s in x.shape) else x


@program(lambda n: (randn(n, 4),), captures=0)
def zip_enumerate(x):
    return (
        [i * s for i, s in enumerate(x.shape)],
        [a + b for a, b in zip(x.shape, x.shape[::-1])],
        dict(zip("ab", x.shape)),
    )


@program(lambda n: (randn(n, 4),))
def dict_values(x):
    d = {"n": x.shape[0]}
    d["m"] = d["n"] * 2
    d.update(k=d.pop("n") + 1)
    return d, x.new_zeros(d["m"]), collections.OrderedDict(a=x.shape[1]), collections.Counter(a=x.shape[0])


@program(lambda n: (randn(n, 4),))
def dict_key_get(x):
    table = {(100, 4): 1.0}
    return x * table.get(tuple(x.shape), 2.0)


@program(lambda n: (randn(3, 4), n), captures=2)
def ints_scalar(x, k):
    return x * k, x + k // 2, x.pow(k % 3), k & 1


@program(lambda n: (randn(30, 4), n), captures=2)
def int_slice(x, k):
    return x[:k], x[k:], x[-k:] if k else x, x.narrow(0, 0, k), x[k]


@program(lambda n: (randn(30, 4), n))
def int_arange_loop(x, k):
    return x[torch.arange(k)], x[list(range(2))] * k


@program(lambda n: (randn(30, 4), [n, n + 1, 2]), captures=2)
def int_list(x, ks):
    return [x[:k].sum(0) for k in ks], sum(ks), max(ks)


@program(lambda n: (randn(30, 4), {"start": n, "stop": n + 3}), captures=2)
def int_dict(x, d):
    return x[d["start"] : d["stop"]]


@program(lambda n: (randn(30, 4), (n, (n, {"k": n}))), captures=2)
def int_nested(x, t):
    return x * t[0] + t[1][0] * t[1][1]["k"]


@program(lambda n: (randn(n, 4),))
def math_functions(x):
    n = x.shape[0]
    return (
        x * math.sqrt(n),
        math.log(n + 1) * x,
        math.floor(n / 2),
        math.ceil(n / 3),
        math.pow(n, 2),
        math.gcd(n, 4),
        math.isqrt(n),
        math.comb(n + 3, 2),
    )


@program(lambda n: (randn(n, 4),), captures=0)
def int_float_round(x):
    n = x.shape[0]
    return (
        int(n * 0.5),
        round(n / 3),
        float(n),
        int(float(n)),
        round(n * 0.37, 2),
        n / 4,
        divmod(n, 3),
        abs(-n),
        pow(n, 2),
        bool(n),
    )


@program(lambda n: (randn(n, 4),), captures=0)
def bit_ops(x):
    n = x.shape[0]
    return n << 1, n >> 1, n & 3, n | 8, n ^ 5, ~n, (n + 7) // 8 * 8, -(-n // 3)


@program(lambda n: (randn(n, 4),))
def shape_compare(x):
    y = x.clone()
    assert x.shape == y.shape and x.size() == torch.Size([x.shape[0], 4])
    return x + y, x.shape == (5, 4)


@program(lambda n: (randn(n, 4),))
def shape_unpack(x):
    (*lead, d) = x.shape
    a, *rest = x.shape
    return x.view(*lead, 2, d // 2), rest, len(lead)


@program(lambda n: (randn(n, 4),))
def shape_concat(x):
    return (
        x.new_zeros(x.shape[:-1] + (7,)),
        torch.empty(tuple(x.shape) + (1,)).shape,
        [*x.shape, 1],
        (1,) * x.dim() + x.shape,
    )


@program(lambda n: (randn(n, 4),))
def list_methods(x):
    s = list(x.shape)
    s.insert(0, 1)
    s.append(s.pop())
    s.reverse()
    s.extend([2])
    return x.reshape(s[2:3] + [-1]), s, s.index(1), s.count(77), s[::-1]


@program(lambda n: (randn(n, 4),))
def list_mult(x):
    n = x.shape[0]
    return [0.5] * x.dim(), torch.tensor([0.0] * 3), x * n


@program(lambda n: (randn(n, 4),))
def tensor_of_sizes(x):
    return (
        torch.tensor(x.shape),
        torch.tensor([x.shape[0], 2.5]),
        torch.as_tensor(x.shape[0]),
        torch.LongTensor([x.shape[0]]),
        torch.scalar_tensor(x.shape[0]),
    )


@program(lambda n: (randn(n, 4),))
def reductions_div(x):
    return x.sum(0) / x.shape[0], x.sum() / x.numel(), x.norm() / math.sqrt(x.numel()), x / len(x)


@program(lambda n: (randn(n, 4), 0.5 * n))
def temperature(x, t):
    return (x / t).softmax(-1) if t > 0 else x


@program(lambda n: (randn(n, 4), n / 20))
def lerp_ema(x, d):
    avg = torch.ones(4)
    avg.mul_(d).add_(x.mean(0), alpha=1 - d)
    return avg, torch.lerp(avg, x.sum(0), d)


@program(lambda n: (randn(n, 3), randn(n, 3).abs() + 0.1))
def normal_dist(m, s):
    d = torch.distributions.Normal(m, s)
    return d.log_prob(m + 1), d.entropy(), d.cdf(m), d.batch_shape


@program(lambda n: (randn(n, 3),))
def categorical(l):
    d = torch.distributions.Categorical(logits=l)
    return d.log_prob(torch.zeros(l.shape[0], dtype=torch.long)), d.entropy(), d.probs


@program(lambda n: (randn(n, 3),))
def bernoulli(l):
    d = torch.distributions.Bernoulli(logits=l)
    return d.log_prob((l > 0).float()), d.mean


@program(lambda n: (randn(n, 3), randn(n, 3)))
def kl(a, b):
    N = torch.distributions.Normal
    return torch.distributions.kl_divergence(N(a, a.exp()), N(b, b.exp())).sum() / a.shape[0]


@program(lambda n: (torch.rand(n, 3) + 0.1,))
def beta_gamma(a):
    return torch.distributions.Beta(a, a + 1).log_prob(a / 4), torch.distributions.Gamma(a, a).mean


@program(lambda n: (randn(n, 3),))
def independent(m):
    d = torch.distributions.Independent(torch.distributions.Normal(m, 1.0), 1)
    return d.log_prob(m * 2), d.event_shape


@program(lambda n: (randn(n, 3),))
def mvn(m):
    d = torch.distributions.MultivariateNormal(m, torch.eye(3))
    return d.log_prob(m + 0.1)


@program(lambda n: (randn(n, 3), randn(n, 3)))
def infonce(a, b):
    s = F.normalize(a) @ F.normalize(b).T
    return F.cross_entropy(s, torch.arange(a.size(0)))


@program(lambda n: (randn(n, 3), randn(n, 3), torch.ones(n)))
def cosine_loss(a, b, t):
    return F.cosine_embedding_loss(a, b, t), F.triplet_margin_loss(a, b, a + b)


@program(lambda n: (randn(2, n, 3), (torch.arange(n) < max(n - 1, 1)).float()[None]))
def masked_mean(x, m):
    return (x * m[..., None]).sum() / (m.sum() * x.shape[-1])


@program(lambda n: (randn(n, 3), randn(n, 3)), captures=4, sizes=FROM_ZERO)
def where_empty(a, b):
    return torch.where(a > b, a, b), a.sum() if a.numel() else torch.zeros(()), torch.cat([a, b])


@program(lambda n: (randn(n, 3),), captures=4, sizes=FROM_ZERO)
def empty_ok(a):
    if a.shape[0] == 0:
        return a.new_zeros(3)
    return a.max(0).values


@program(lambda n: (randn(n, 3), randn(1, 3)))
def broadcast_one(a, b):
    return a + b, b.expand_as(a), torch.broadcast_shapes(a.shape, b.shape)


@program(lambda n: (randn(n, 3), randn(n if n % 2 else 1, 3)), captures=4)
def broadcast_maybe(a, b):
    return a * b


@program(lambda n: (randn(n, 3), n), captures=4, sizes=ABOVE_ONE)
def view_neg(a, n):
    return a.view(-1, 3), a.reshape(3, -1), a.view(n, -1), a.flatten(), a.unflatten(0, (-1, 1))


@program(lambda n: (randn(n * 2, 3),))
def unflatten_half(a):
    return a.unflatten(0, (2, -1)), a.view(2, a.shape[0] // 2, 3).transpose(0, 1)


@program(lambda n: (randn(n, 3), torch.zeros(n, dtype=torch.bool)), captures=4, sizes=FROM_ZERO)
def masked_ops(a, m):
    return a.masked_fill(m[:, None], 0), a * m[:, None], m.any(), m.sum() + a.shape[0]


@program(lambda n: (randn(n, 3),))
def histc_like(a):
    return (
        torch.histc(a, bins=4),
        torch.bucketize(a, torch.linspace(-1, 1, 5)),
        torch.searchsorted(torch.arange(5.0), a),
    )


@program(lambda n: (randn(n, 3),))
def einsum_things(a):
    return (
        torch.einsum("ij,kj->ik", a, a),
        torch.einsum("ij->j", a),
        torch.outer(a[:, 0], a[:, 1]),
        torch.tensordot(a, a, ([0], [0])),
    )


@program(lambda n: (randn(n, 3),))
def stack_list(a):
    rows = [a * i for i in range(3)]
    return (
        torch.stack(rows).view(3 * a.shape[0], -1),
        torch.cat(rows, -1),
        torch.hstack(rows),
        torch.vstack(rows),
        torch.block_diag(a, a),
    )


@program(lambda n: (randn(n, 3),), captures=2, sizes=ABOVE_ONE)
def breaks_with_size(a):
    n = a.shape[0]
    b = a * n
    print("", end="")
    return b.view(n, 3) + n, b.sum() / n


@program(lambda n: (randn(n, 3),), captures=2, sizes=ABOVE_ONE)
def tolist_sizes(a):
    sizes = torch.tensor([1, a.shape[0] - 1]).tolist()
    return a.split(sizes)


@program(lambda n: (randn(n, 3), slice(0, n)))
def slice_arg(a, s):
    return a[s], s.stop * 2


@program(lambda n: (randn(n, 3), torch.Size([n, 3])))
def size_arg(a, s):
    return a.view(s), torch.zeros(s), s.numel()


@program(lambda n: (randn(n, 3), torch.device("cpu"), torch.float64))
def to_kwargs(a, d, t):
    return a.to(d, t) * a.shape[0], torch.arange(a.shape[0], device=d, dtype=t)


@program(lambda n: ([randn(k + 1, 3) for k in range(3)], n), captures=2)
def list_const_sizes(xs, n):
    return [x * n for x in xs]


@program(lambda n: ([randn(n, 3)] * 2 + [randn(2, 3)],))
def list_same_tensor(xs):
    return torch.cat(xs), [x.shape[0] for x in xs]


@program(lambda n: ({k: randn(n + i, 3) for i, k in enumerate("abc")},))
def dict_ragged(d):
    return {k: v.mean(0) for k, v in d.items()}, sum(v.shape[0] for v in d.values())


@program(lambda n: (randn(n, 4), randn(n, 4).t()))
def mixed_layout(a, b):
    return a + b.t(), a @ b, b.contiguous(), b.reshape(-1)


@program(lambda n: (randn(n + 2, 4)[1:-1],))
def view_inputs(a):
    return a * 2, a.view(-1), a.storage_offset()


@program(lambda n: (randn(n, 4),))
def star_args(a):
    def f(*s, **k):
        return torch.zeros(*s) + k["v"]

    return f(*a.shape, v=a.shape[0])


@program(lambda n: (randn(n, 4),), captures=0)
def generator_sum(a):
    return (
        sum(s * 2 for s in a.shape),
        max((s for s in a.shape), default=0),
        [*map(lambda s: s + 1, a.shape)],
        list(filter(lambda s: s != 1000, a.shape)),
    )


@program(lambda n: (randn(n, 4),))
def isinstance_int(a):
    n = a.shape[0]
    return (
        isinstance(n, int),
        type(n) is int,
        isinstance(a.shape, tuple),
        isinstance(n / 2, float),
        a * n,
        hasattr(n, "bit_length"),
    )


@program(lambda n: (randn(n, 4),))
def set_of_sizes(a):
    return len({a.shape[1], 4}), a.shape[1] in {4, 5}, a * 2


@program(lambda n: (randn(n, 4),))
def match_shape(a):
    match a.shape:
        case (n, 4):
            return a * n
        case _:
            return a


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_over_sizes(name: str) -> None:
    PROGRAMS.check(name)
