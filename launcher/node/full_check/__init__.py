"""Programs that measure this node, and its network to others."""
