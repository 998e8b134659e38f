"""What a trace records: the graph, fake tensors, symbols, the memory of operators' results."""
