"""The facts of this node for comparison with other nodes."""
