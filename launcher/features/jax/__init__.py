"""The variables from which `jax.distributed.initialize()` takes a worker's place: `--jax`."""
