# The root of a virtual cluster: `sh -c SCRIPT sh PATH...`, with its unique name in CLUSTER and the
# folders that its private ones would hide. It prints `up`, and ends when its input does.

# An ignored SIGCHLD outlives the exec: the kernel then reaps orphans, as a first process has to.
inner='
set -e
mount -t tmpfs -o mode=755 "$CLUSTER" /run
mkdir -p /run/etc /run/home/.ssh /run/netns /run/sshd
# Hosts have an /etc of their own: a file of it that somebody replaces would take away what is
# mounted on it, everywhere. One that goes while it is copied is of no use to a host.
cp -a /etc/. /run/etc/ 2>/dev/null || test -e /run/etc/passwd
touch /run/netns/switch
mount --bind /proc/self/ns/net /run/netns/switch
ip link add switch type bridge
ip link set switch up
ssh-keygen -q -t ed25519 -N "" -f /run/home/.ssh/id_ed25519
cp /run/home/.ssh/id_ed25519.pub /run/home/.ssh/authorized_keys
for path; do
    mkdir -p "/run/shared$path"
    mount --bind "$path" "/run/shared$path"
done
echo up
exec env --ignore-signal=CHLD cat
'
unshare --mount --net --pid --fork --kill-child sh -c "$inner" sh "$@"

# The hosts are gone now. What was started at the login has the real machine's process ids: it is
# known by the file system that only this cluster has.
for round in 1 2 3 4 5 6 7 8 9 10; do
    pids=$(grep -lsF " $CLUSTER " /proc/[0-9]*/mountinfo | cut -d/ -f3)
    [ "$pids" ] || exit 0
    kill -KILL $pids 2>/dev/null
    sleep 0.1
done
