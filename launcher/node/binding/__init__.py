"""Cores, memory and NUMA nodes of this machine, and the binding of workers to them."""
