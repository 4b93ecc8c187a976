"""Sources of samples for training code, without torch. Each is imported when it is used."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .sampler import ElasticSampler
    from .shard_queue import Shard, ShardQueue

__all__ = ["QUEUE_FD", "ElasticSampler", "Shard", "ShardQueue"]

QUEUE_FD = "DSRUN_QUEUE_FD"
"""The variable that names the socket for new connections to the shard queues: its descriptor and
inode, as in `7:12345`."""

_MODULES = {"ElasticSampler": "sampler", "Shard": "shard_queue", "ShardQueue": "shard_queue"}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
