"""Builders of compiled operations: DeepSpeed's, for dsrun has no operations of its own."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .runtime import Runtime


def _deepspeed() -> Any:
    """DeepSpeed's own accelerator, which it chooses itself.

    Raises:
        ModuleNotFoundError: DeepSpeed is not installed.
    """
    if find_spec("deepspeed") is None:
        raise ModuleNotFoundError(
            "op builders are DeepSpeed's, and deepspeed is not installed", name="deepspeed"
        )
    return import_module("deepspeed.accelerator").get_accelerator()


class OpBuilders(Runtime):
    """DeepSpeed's builders for DeepSpeed's choice of accelerator.

    All but `build_extension` raise ModuleNotFoundError where DeepSpeed is not installed.
    """

    def op_builder_dir(self) -> str:
        """The package that the builders are in."""
        return str(_deepspeed().op_builder_dir())

    def get_op_builder(self, class_name: str) -> Any:
        """A builder's class; None if DeepSpeed has none of this name."""
        return _deepspeed().get_op_builder(class_name)

    def create_op_builder(self, class_name: str) -> Any:
        """A builder; None if DeepSpeed has none of this name."""
        return _deepspeed().create_op_builder(class_name)

    def build_extension(self) -> Any:
        """Torch's command for setuptools that compiles extensions."""
        from torch.utils.cpp_extension import BuildExtension

        return BuildExtension
