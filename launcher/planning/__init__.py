"""From words to a plan, and to what the nodes are sent."""
