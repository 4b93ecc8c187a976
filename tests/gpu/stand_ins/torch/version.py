"""What dsrun-check reads, which does not import torch."""

__version__ = "2.11.0+cu130"
