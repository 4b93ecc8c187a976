"""Device files, PCI functions, network cards and NVIDIA's library, as this machine has them."""
