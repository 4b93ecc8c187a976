"""The node's half of a running job."""
