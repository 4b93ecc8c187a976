"""The half of a running job that lives on a node."""
