"""Callables that an operator is given: each is traced as a graph within the graph.

`bodies` has what all of these operators share; every other module serves one family of them. Importing the
package makes traces serve them.
"""

from framelift.higher_order import autograd_function as autograd_function
from framelift.higher_order import checkpoint as checkpoint
from framelift.higher_order import control_flow as control_flow
from framelift.higher_order import flex_attention as flex_attention
from framelift.higher_order import hooks as hooks
from framelift.higher_order import module_hooks as module_hooks
from framelift.higher_order import operators as operators
from framelift.higher_order import regions as regions
from framelift.higher_order import transforms as transforms
from framelift.higher_order import triton_kernels as triton_kernels
from framelift.higher_order import vmap as vmap
from framelift.higher_order import wrapping as wrapping
