"""A whole program as an artifact: captured by Framelift, brought to torch's operators by `torch.export`.

signatures     how a program is called: its arguments as leaves, and what they are named
shapes         which sizes may vary (`Dim` and its kin), and what is said when they can't
capture        one run of the program, from its leaves to a graph and what that relies on
assignments    what the program writes outside: buffers are part of the artifact, all else is refused
graph_modules  the graph as a module that is called as the program is
program        an artifact for torch's tools
graphs         `framelift.export_graph`, the module and its guards
forms          `framelift.export`, which gives the one or the other
torch_entrances  puts both behind torch's own names, for `install`
"""
