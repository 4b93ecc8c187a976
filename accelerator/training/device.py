"""The whole of what training code is offered for its device."""

from .builders import OpBuilders
from .devices import Devices
from .distributed import Distributed
from .dtypes import Dtypes
from .memory import Memory
from .streams import Streams


class TrainingAccelerator(Devices, Streams, Memory, Dtypes, Distributed, OpBuilders):
    """One vendor's devices, under the names of DeepSpeed's accelerator interface.

    An optional `device_index` is the current device where it is left out. Every method raises
    NotImplementedError where torch has nothing of the kind for this vendor.
    """
