"""NCCL's version."""


def version() -> tuple[int, int, int]:
    return (2, 29, 7)
