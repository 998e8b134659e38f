"""torch's modes and switches, and a few of Python's and NumPy's: read, set and changed between calls."""

from __future__ import annotations

from .area import catalogue, table
from .language import LANGUAGE

HEADER = """
import decimal, gc, os, warnings
import numpy as np

def weigh(x):
    return torch.nn.functional.linear(x, torch.eye(3)) + torch.full((3,), 0.5)

def warn(n):
    warnings.warn(f'careful {n}', UserWarning)

LAYER = torch.nn.Linear(3, 3)
"""

READS = table("""
    torch.is_grad_enabled()
    torch.is_inference_mode_enabled()
    torch.is_autocast_enabled('cpu')
    torch.get_autocast_dtype('cpu') == torch.bfloat16
    torch.get_default_dtype() == torch.float64
    torch.are_deterministic_algorithms_enabled()
    torch.is_deterministic_algorithms_warn_only_enabled()
    torch.is_anomaly_enabled()
    torch.backends.cudnn.benchmark
    torch.backends.cudnn.deterministic
    torch.backends.cudnn.enabled
    torch.backends.cudnn.allow_tf32
    torch.backends.mkldnn.enabled
    torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    torch.backends.cuda.flash_sdp_enabled()
    torch.backends.cuda.math_sdp_enabled()
    torch.backends.opt_einsum.enabled
    torch.get_float32_matmul_precision() == 'high'
    torch.utils.deterministic.fill_uninitialized_memory
    torch.autograd.is_multithreading_enabled()
    torch.full((), 1.0).dtype == torch.float64
    torch.backends.quantized.engine == 'none'
    torch.get_num_threads() > 1
    np.geterr()['divide'] == 'raise'
    gc.isenabled()
    sys.getrecursionlimit() > 2000
    sys.flags.optimize > 0
    'FRAMELIFT_SWITCH' in os.environ
    os.environ.get('FRAMELIFT_SWITCH') == '1'
    decimal.getcontext().prec > 20
    torch.nn.functional.linear(t, torch.eye(3)).dtype == torch.bfloat16
    t.requires_grad or (w * 2).requires_grad
    torch.is_inference(<T>)
    torch.compiler.is_compiling() and False
    LAYER.training
    math.isnan(torch.empty(()).fill_(<F>).item())
    torch._C._get_cudnn_allow_tf32() if hasattr(torch._C, '_get_cudnn_allow_tf32') else False
""")

SET = """
## grad mode
torch.set_grad_enabled(<B>)
## default dtype
torch.set_default_dtype(torch.float64 if <B> else torch.float32)
## deterministic
torch.use_deterministic_algorithms(<B>, warn_only=True)
## anomaly
torch.autograd.set_detect_anomaly(<B>)
## cudnn benchmark
torch.backends.cudnn.benchmark = <B>
## cudnn deterministic
torch.backends.cudnn.deterministic = <B>
## tf32
torch.backends.cuda.matmul.allow_tf32 = <B>
## reduced precision
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = <B>
## flash
torch.backends.cuda.enable_flash_sdp(<B>)
## precision
torch.set_float32_matmul_precision('high' if <B> else 'highest')
## fill memory
torch.utils.deterministic.fill_uninitialized_memory = <B>
## autocast by hand
torch.set_autocast_enabled('cpu', <B>)
## autocast dtype
torch.set_autocast_dtype('cpu', torch.bfloat16 if <B> else torch.float16)
## opt_einsum
torch.backends.opt_einsum.enabled = <B>
## NumPy's errors
np.seterr(divide='raise' if <B> else 'warn')
## recursion limit
sys.setrecursionlimit(3000 if <B> else 1000)
## environment
os.environ['FRAMELIFT_SWITCH'] = str(<I>)
## environment emptied
os.environ.pop('FRAMELIFT_SWITCH', None)
## precision of decimals
decimal.getcontext().prec = 10 + <I>
## training
LAYER.train(<B>)
## anew
torch.backends.cudnn.enabled = <B>
"""

WITH = """
## 2 no_grad
with torch.no_grad():
    ...
## inference mode
with torch.inference_mode(<B>):
    ...
## 2 autocast
with torch.autocast('cpu', dtype=torch.bfloat16, enabled=<B>):
    <+T> = weigh(<T>).float()
    ...
## deterministic flags
with torch.backends.cudnn.flags(enabled=<B>, benchmark=<B>):
    ...
## kernels of attention
with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
    ...
## anomaly
with torch.autograd.detect_anomaly(check_nan=<B>):
    ...
## grad mode on and off
with torch.set_grad_enabled(<B>), torch.enable_grad():
    ...
## random state of its own
with torch.random.fork_rng(devices=[]):
    <+T> = torch.rand(3)
    ...
## NumPy's errors
with np.errstate(divide='ignore', invalid='raise'):
    ...
## warnings caught
with warnings.catch_warnings():
    warnings.simplefilter('ignore')
    warn(<I>)
    ...
## device
with torch.device('cpu'):
    ...
## multithreading
with torch.autograd.set_multithreading_enabled(<B>):
    ...
## precision of decimals
with decimal.localcontext() as context:
    context.prec = 7
    LOG.append(str(decimal.Decimal(1) / 3))
    ...
## set in try
try:
    torch.set_grad_enabled(False)
    ...
finally:
    torch.set_grad_enabled(True)
## warning
warn(<I>)
## torch's warning
torch.nn.functional.mse_loss(torch.ones(1, 3), <T>)
"""

OWN = """
## 3 read
<+B> = <B>
## 2 note
LOG.append(<B>)
## 2 branch
if <B>:
    ...
## layer
<+T> = LAYER(<T>.float()).detach().float()
## weigh
<+T> = weigh(<T>.float()).float()
## print
print(<B>, <I>)
## break
note(<I>)
## result type
LOG.append((<T> * 1.5).dtype)
"""

SWITCHES = LANGUAGE.extended(
    "switches",
    header=HEADER,
    statements=catalogue(SET + WITH + OWN + OWN),
    edits=catalogue(SET),
    expressions={"B": READS},
    constants=LANGUAGE.constants | {"B": ["True", "False", "flag"]},
    options=[{}, {}, {}, {"backend": "aot_eager"}, {"fullgraph": True}],
)
