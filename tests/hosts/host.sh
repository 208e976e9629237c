#!/usr/bin/env bash
#
# host.sh NAME [CHECKOUT BUILD]: becomes the first process of an imitated host (rig.py), in
# namespaces that were made for it. The first host gets the two folders; the second one inherits its
# mounts, and so /run/shared, which both see as if over NFS. Prints "up" once it can be entered.
set -euo pipefail
readonly name=$1 shared=/run/shared

mount --make-rprivate /
hostname "$name"
if (($# > 1)); then
  mount -t tmpfs -o mode=755 tmpfs /run
  mkdir -p /run/sshd /run/munge "$shared"/{checkout,build,ssh}
  mount --bind -o ro "$2" "$shared/checkout"
  mount --bind -o ro "$3" "$shared/build"
  ssh-keygen -q -t ed25519 -N '' -f "$shared/ssh/key"
  printf '%s\n' 'Host *' "IdentityFile $shared/ssh/key" 'StrictHostKeyChecking no' \
    'UserKnownHostsFile /dev/null' 'LogLevel ERROR' 'BatchMode yes' >"$shared/ssh/config"
  printf '%s\n' '127.0.0.1 localhost' '10.77.0.1 node1' '10.77.0.2 node2' >"$shared/etc-hosts"
fi

# What each host has for itself. Munge trusts only folders of its own user.
mount -t tmpfs -o "uid=$(id -u munge),mode=755" tmpfs /run/munge
for folder in /tmp /dev/shm ~root; do mount -t tmpfs tmpfs "$folder"; done
mount --bind "$shared/etc-hosts" /etc/hosts
mkdir -m 700 ~root/.ssh
cp "$shared/ssh/config" ~root/.ssh/

echo up
# It also reaps what processes of this host leave.
exec /usr/sbin/sshd -D -E "$shared/$name-sshd.log" -f /dev/null -h "$shared/ssh/key" \
  -o UsePAM=no -o PermitRootLogin=prohibit-password -o MaxStartups=100 \
  -o "AuthorizedKeysFile=$shared/ssh/key.pub" -o PidFile=none >/dev/null 2>&1
