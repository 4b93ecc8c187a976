"""Huawei's Ascend processors. Their numbers do not follow PCI addresses."""

from .base import Accelerator, Files

ACCELERATOR = Accelerator(
    name="npu",
    title="Ascend NPUs",
    comm_backend="hccl",
    visible_env=("ASCEND_RT_VISIBLE_DEVICES",),
    device_files=(Files("dev/davinci[0-9]*"),),
    env_prefixes=("ASCEND_", "HCCL_", "ACL_", "NPU_", "TASK_QUEUE_ENABLE"),
)
