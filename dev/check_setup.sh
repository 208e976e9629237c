# shellcheck shell=bash
#
# What ./check needs beside what ./bench does: a linter of scripts, a browser, and what imitates two
# hosts with Slurm (tests/hosts/). Sourced after tools/setup.sh.

needs+='check   command  shellcheck             shellcheck
browser browser  chromium               chromium
hosts   command  ip                     iproute2
hosts   command  unshare                util-linux
hosts   command  setpriv                util-linux
hosts   command  sshd                   openssh-server
hosts   command  ssh                    openssh-client
hosts   command  munged                 munge
hosts   command  slurmctld              slurmctld
hosts   command  slurmd                 slurmd
hosts   command  srun                   slurm-client
hosts   command  nft                    nftables
'

# The system's browser, or Playwright's own. Ubuntu's package chromium-browser installs neither, but
# a snap, which most containers cannot run.
browser_is_there() {
  local browser
  for browser in chromium google-chrome google-chrome-stable; do
    ! type -P "$browser" >/dev/null || return 0
  done
  compgen -G "${PLAYWRIGHT_BROWSERS_PATH:-${HOME:-}/.cache/ms-playwright}/chromium-*" >/dev/null
}

# Prints why two hosts cannot be imitated on this machine (tests/hosts/); nothing if they can.
hosts_obstacle() {
  local lacks message spaces=(--mount --uts --ipc --net --pid --time --fork)
  lacks=$(missing hosts)
  if ((EUID)); then
    echo "imitated hosts need root"
  elif [[ $lacks ]]; then
    echo "imitated hosts need ${lacks//$'\n'/, }"
  elif ! message=$(unshare "${spaces[@]}" mount -t tmpfs tmpfs /run 2>&1); then
    echo "imitated hosts need namespaces: ${message%%$'\n'*}"
  fi
}
