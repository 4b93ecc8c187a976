"""Placeholders such as `{node_rank}` in arguments and variables, for programs that span nodes.

Programs that are not started by torch (vLLM, SGLang, Ray) take their place in the job as arguments.
"""
