"""`torch.distributed`: process groups, device meshes, collectives and distributed tensors.

`values` has the rules of the types, `groups` serves calls of groups and meshes, `handlers` the collectives.
Two modules are imported when a program needs them: `functional`, for functional collectives, and `dtensor`.
"""
