"""Planning: from the words of a command line to a plan, and to the messages for nodes."""
