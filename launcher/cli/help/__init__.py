"""The pages of the help, made of the table of options, and what they say beside it.

Nothing here is imported unless help is printed or documentation is generated.
"""
