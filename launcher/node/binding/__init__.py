"""Cores, memory and NUMA nodes: what there is, and how workers are bound to it."""
