"""Small words that many messages share. Pure."""


def counted(number: int, noun: str) -> str:
    """Return e.g. `1 node` or `2 nodes`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
