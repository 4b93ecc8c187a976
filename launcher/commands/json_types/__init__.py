"""The types of what the other commands print with `--json`: see `common.formats`."""
