"""Who may take part: hosts, their slots, and the filters over them."""
