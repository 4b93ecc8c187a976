"""Backends that start all nodes with one command: the MPI launchers and Slurm."""
