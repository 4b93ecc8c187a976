"""dsrun: start a PyTorch training job on every device of every node."""

__version__ = "0.2.0"
