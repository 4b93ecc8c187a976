"""Builders of compiled operations: DeepSpeed's, because dsrun has no operations."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .runtime import Runtime


def _deepspeed() -> Any:
    """Return DeepSpeed's accelerator, which DeepSpeed chooses itself.

    Raises:
        ModuleNotFoundError: DeepSpeed is not installed.
    """
    if find_spec("deepspeed") is None:
        raise ModuleNotFoundError(
            "op builders are DeepSpeed's, but deepspeed is not installed", name="deepspeed"
        )
    return import_module("deepspeed.accelerator").get_accelerator()


class OpBuilders(Runtime):
    """DeepSpeed's builders for DeepSpeed's choice of accelerator.

    All but `build_extension` raise ModuleNotFoundError if DeepSpeed is not installed.
    """

    def op_builder_dir(self) -> str:
        """Return the package of the builders."""
        return str(_deepspeed().op_builder_dir())

    def get_op_builder(self, class_name: str) -> Any:
        """Return a builder's class; None if DeepSpeed lacks it."""
        return _deepspeed().get_op_builder(class_name)

    def create_op_builder(self, class_name: str) -> Any:
        """Return a builder; None if DeepSpeed lacks it."""
        return _deepspeed().create_op_builder(class_name)

    def build_extension(self) -> Any:
        """Return torch's setuptools command that compiles extensions."""
        from torch.utils.cpp_extension import BuildExtension

        return BuildExtension
