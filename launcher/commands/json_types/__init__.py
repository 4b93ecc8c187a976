"""The JSON types of the other commands with `--json`: see `common.formats`."""
