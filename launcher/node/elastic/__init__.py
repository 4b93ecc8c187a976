"""The node's half of an elastic job."""
