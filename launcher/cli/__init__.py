"""The command line: the table of options, the parser and the help."""
