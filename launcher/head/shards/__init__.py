"""The queues of shards that workers take data from."""
