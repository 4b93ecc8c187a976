"""The facts of this node that are compared with those of the others."""
