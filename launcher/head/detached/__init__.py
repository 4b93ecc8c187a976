"""Jobs without a terminal: how they let go of it, and what stays of them."""
