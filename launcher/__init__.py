"""dsrun: start a PyTorch training job on every device of every node."""

__version__ = "0.1.0"
