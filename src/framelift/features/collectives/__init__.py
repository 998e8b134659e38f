"""Process groups, device meshes, collectives and distributed tensors."""
