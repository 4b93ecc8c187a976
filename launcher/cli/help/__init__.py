"""The pages of the help, made from the table of options and from additional texts.

Nothing here is imported unless help is printed or documentation is generated.
"""
