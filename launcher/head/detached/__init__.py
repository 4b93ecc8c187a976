"""Jobs without a terminal: how they leave it, and their kept records."""
