"""One node by hand, as DeepSpeed's `launch` starts it; other programs may rely on this name.

python -m dsrun.launcher.launch --world_info=... --node_rank=N --master_addr=A script ...
"""

from .features.one_node.command import start

if __name__ == "__main__":
    start()
