"""Tensors while a frame is traced: fakes, the graph being recorded, the op memory."""
