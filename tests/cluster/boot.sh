# The start of a virtual host: `sh -c SCRIPT sh FOLDER NAME SSHD`, in the host's new namespaces.

set -e
cd "$1"
echo "$2" > /proc/sys/kernel/hostname
mount --all --fstab fstab
ip -batch wires
# Ask for a host's card 20 times a second, not once, and give up after three seconds as usual: a
# cable that is back is of use at once.
echo 50 > /proc/sys/net/ipv4/neigh/eth0/retrans_time_ms
echo 60 > /proc/sys/net/ipv4/neigh/eth0/mcast_solicit
test -e host_key || ssh-keygen -q -t ed25519 -N '' -f host_key
"$3" -f "$1/sshd_config" -E "$1/sshd.log"
# An ignored SIGCHLD outlives the exec: the kernel then reaps orphans, as a first process has to.
exec env --ignore-signal=CHLD sleep infinity
