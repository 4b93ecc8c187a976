"""A control line on this node: its runs, and what it does beside them."""
