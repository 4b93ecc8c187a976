"""From a file of roles, or several programs on the command line, to a `RolesSpec`."""
