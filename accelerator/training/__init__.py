"""Device functions for training code, one implementation over torch for all vendors.

The names follow DeepSpeed's accelerator interface: code written for it runs. The vendors' modules
of torch (`torch.cuda`, `torch.xpu`, `torch.npu`), all alike, do the work; for the CPU, `host` has
the functions that `torch.cpu` lacks.
"""

from .device import TrainingAccelerator

__all__ = ["TrainingAccelerator"]
