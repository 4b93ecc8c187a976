"""`ShardQueue` under its documented name; it is written in `data/shard_queue`."""

from .data.shard_queue import Shard, ShardQueue

__all__ = ["Shard", "ShardQueue"]
