"""Have a kernel read far behind the memory of a tensor."""

import torch

FAR = 1 << 38
"""Elements of 4 bytes: no allocation is as large."""


class Longer:
    """A tensor that claims to be longer than it is, by the protocol of numba and CuPy."""

    def __init__(self, one: torch.Tensor) -> None:
        self.__cuda_array_interface__ = {
            "shape": (2 * FAR,),
            "typestr": "<f4",
            "data": (one.data_ptr(), False),
            "strides": None,
            "version": 2,
        }


one = torch.ones(1024, device="cuda")
print((torch.as_tensor(Longer(one), device="cuda")[FAR : FAR + 1024] + 1).sum().item())
