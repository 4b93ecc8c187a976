"""Jobs in simulated worlds: the real runner and node launchers, on a machine of the tests' own."""
