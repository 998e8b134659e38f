"""Operators that are given callables: each is traced as a graph within the graph."""
