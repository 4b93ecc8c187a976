"""Process groups of one or two ranks."""

from .distributed_c10d import all_gather_into_tensor as all_gather_into_tensor
from .distributed_c10d import all_reduce as all_reduce
from .distributed_c10d import barrier as barrier
from .distributed_c10d import broadcast as broadcast
from .distributed_c10d import destroy_process_group as destroy_process_group
from .distributed_c10d import get_rank as get_rank
from .distributed_c10d import get_world_size as get_world_size
from .distributed_c10d import init_process_group as init_process_group
