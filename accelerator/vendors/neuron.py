"""AWS Trainium and Inferentia. Masks count cores, and a device has several.

If a worker sees the cores of all workers of its node, torch_xla uses the one at LOCAL_RANK.
NEURON_LOGICAL_NC_CONFIG joins cores in pairs (Neuron documentation, "Logical NeuronCore
configuration").
"""

from .base import Accelerator, Files

ACCELERATOR = Accelerator(
    name="neuron",
    title="NeuronCores",
    comm_backend="xla",
    torch_device="xla",
    visible_env=("NEURON_RT_VISIBLE_CORES",),
    ranges=True,
    device_files=(Files("dev/neuron[0-9]*", device="sys/class/neuron_device/neuron[0-9]*"),),
    parts=("neuron_core[0-9]*",),
    joined={"NEURON_LOGICAL_NC_CONFIG=2": 2},
    env_prefixes=("NEURON_", "XLA_"),
)
