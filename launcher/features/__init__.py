"""Features: one folder each, with its halves for the runner and for nodes side by side."""
