"""The complete interface for training code."""

from .builders import OpBuilders
from .devices import Devices
from .distributed import Distributed
from .dtypes import Dtypes
from .memory import Memory
from .streams import DeviceStreams


class TrainingAccelerator(Devices, DeviceStreams, Memory, Dtypes, Distributed, OpBuilders):
    """One vendor's devices, under the names of DeepSpeed's accelerator interface.

    An optional `device_index` is by default the current device. Every method raises
    NotImplementedError if torch has no such function for this vendor.
    """
