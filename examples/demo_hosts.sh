#!/bin/sh
# The second half of the demo: the same training on four virtual hosts, each with its own sshd, if
# this machine supports them (root, sshd, network namespaces). $1 is the folder with dsrun's commands.
set -eu

bin=$1
PATH="$PATH:/usr/sbin:/sbin"
for tool in sshd ip unshare nsenter ssh-keygen; do
    command -v "$tool" >/dev/null || { echo "no $tool: skipping the part with several hosts"; exit 0; }
done
if ! unshare --mount --net --pid --fork true 2>/dev/null; then
    echo "no namespaces (they need root): skipping the part with several hosts"
    exit 0
fi
exec "$bin/python" tests/cluster/hosts.py --hosts 4 -- \
    "$bin/dsrun" --hostfile /run/hostfile --bind_cores_to_rank examples/train_ddp.py
