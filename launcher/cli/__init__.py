"""The command line: the table of options, the parser, the help."""
