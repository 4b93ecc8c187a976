#!/bin/sh
# The demo's second half: the same training across four virtual hosts with an sshd each, where this
# machine can have them (root, sshd, network namespaces). $1 is the folder of dsrun's commands.
set -eu

bin=$1
PATH="$PATH:/usr/sbin:/sbin"
for tool in sshd ip unshare nsenter ssh-keygen; do
    command -v "$tool" >/dev/null || { echo "no $tool: the part with several hosts is left out"; exit 0; }
done
if ! unshare --mount --net --pid --fork true 2>/dev/null; then
    echo "no namespaces (they need root): the part with several hosts is left out"
    exit 0
fi
exec "$bin/python" tests/cluster/hosts.py --hosts 4 -- \
    "$bin/dsrun" --hostfile /run/hostfile --bind_cores_to_rank examples/train_ddp.py
