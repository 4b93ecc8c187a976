"""Device functions for training code, one implementation over torch for all vendors.

The names are those of DeepSpeed's accelerator interface: code written for it runs. The work
is done by the vendor's module of torch (`torch.cuda`, `torch.xpu`, `torch.npu`), all of which are
alike; for the CPU, `host` has the functions that `torch.cpu` lacks.
"""

from .device import TrainingAccelerator

__all__ = ["TrainingAccelerator"]
