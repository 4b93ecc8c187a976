"""The text of the help: what each option means, topics, and the pages made of them.

Nothing here is imported unless help is printed or documentation is generated.
"""
