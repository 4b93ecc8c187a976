"""Hosts that may take part: where they are named, their slots, and the filters over them."""
