"""One program on the nodes, from its start to its report."""
