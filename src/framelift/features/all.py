"""Every feature, in one list: importing this module registers them with the trace."""

from framelift.features import contexts, optimizers, subclasses, triton_kernels
from framelift.features.autograd import function as autograd_function
from framelift.features.autograd import handlers as autograd
from framelift.features.collectives import groups
from framelift.features.collectives import handlers as collectives
from framelift.features.higher_order import (
    checkpoint,
    control_flow,
    flex_attention,
    nested_regions,
    operators,
    transforms,
    vmap,
    wrapping,
)
from framelift.features.hooks import module_hooks, tensor_hooks
from framelift.features.numpy import handlers as numpy
from framelift.features.random import handlers as random
from framelift.rules import (
    attribute_access,
    builtins,
    classes,
    copies,
    natives,
    standard_library,
    torch_functions,
    torch_modules,
)

FEATURES = (
    *(natives, torch_modules),
    *(attribute_access, builtins, classes, copies, standard_library, torch_functions),
    *(
        autograd,
        autograd_function,
        collectives,
        contexts,
        groups,
        numpy,
        optimizers,
        random,
        subclasses,
        triton_kernels,
    ),
    *(checkpoint, control_flow, flex_attention, nested_regions, operators, transforms, vmap, wrapping),
    *(module_hooks, tensor_hooks),
)
