"""Commands on all nodes: how they are sent, and how their output is shown."""
