"""The shard queues that workers take data from."""
