# shellcheck shell=bash
#
# Shared by ./bench and ./check: finds what is missing, installs it, configures and builds.
#
# This file is sourced, never run. It defines functions and a few constants. It looks for the
# programs and headers themselves and never asks a package manager, so a complete machine loses no
# time. What is missing comes from apt, if there is one. Python packages, in the versions that
# tools/requirements*.txt pin, go into .venv/ and nowhere else. OVERLAPBENCH_NO_INSTALL=1 means that
# nothing is ever installed. Messages go to stderr, the output of installers and CMake to build/.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
readonly root
readonly venv=$root/.venv
readonly packages_log=$root/build/setup-packages.log
readonly python_log=$root/build/setup-python.log

# Columns: the group that needs it, its kind, its name, and the Debian and Ubuntu package with it.
# ./check adds its own (dev/check_setup.sh).
needs='
build   command  g++                    g++
build   command  cmake                  cmake
build   command  ninja                  ninja-build
build   command  git                    git
build   command  mpicxx                 libopenmpi-dev
build   command  mpirun                 openmpi-bin
build   header   benchmark/benchmark.h  libbenchmark-dev
build   header   gtest/gtest.h          libgtest-dev
build   header   fmt/core.h             libfmt-dev
python  venv     python3-venv           python3-venv
'

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# fail STATUS MESSAGE
fail() {
  say "$2"
  exit "$1"
}

may_install() { [[ ${OVERLAPBENCH_NO_INSTALL:-0} == 0 ]]; }
is_root() { [[ $(id -u) == 0 ]]; }

# alone COMMAND...: runs it while no one else sets up or builds in this checkout.
alone() {
  mkdir -p "$root/build"
  (
    flock --nonblock 9 || say "waiting for another run that is setting up or building"
    flock 9
    "$@"
  ) 9>"$root/build/setup.lock"
}

# The first line in which apt or pip says what went wrong.
first_error() { grep -m1 -E '^(E|ERROR): ' "$1" || echo "no reason given"; }

# ---- distribution packages

# is_there KIND NAME
is_there() {
  case $1 in
    command) type -P "$2" >/dev/null ;;
    header) header_is_there "$2" ;;
    venv) usable_python >/dev/null ;;
    browser) browser_is_there ;; # of dev/check_setup.sh
  esac
}

# Looks where the compiler and CMake look by default.
header_is_there() {
  local prefix prefixes
  IFS=: read -ra prefixes <<<"/usr:/usr/local:${CMAKE_PREFIX_PATH:-}"
  for prefix in "${prefixes[@]}"; do
    [[ -e $prefix/include/$1 ]] && return
  done
  return 1
}

# Prints a Python ≥ 3.11 that can make virtual environments (Debian packages that separately).
usable_python() {
  local python
  for python in python3 /usr/bin/python3; do
    "$python" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null &&
      echo "$python" && return
  done
  return 1
}

# missing GROUP: prints a line "name package" for each thing that the group lacks.
missing() {
  local group kind name package
  while read -r group kind name package; do
    [[ $group != "$1" ]] || is_there "$kind" "$name" || echo "$name $package"
  done <<<"$needs"
}

# ensure_packages GROUP: installs what the group lacks. Returns 0 if nothing is missing at the end;
# else says why in one line.
ensure_packages() {
  local name package names=() packages=()
  while read -r name package; do
    names+=("$name")
    packages+=("$package")
  done < <(missing "$1")
  ((${#names[@]})) || return 0

  local install="sudo apt-get install ${packages[*]}"
  ! is_root || install=${install#sudo }
  if ! type -P apt-get >/dev/null; then
    say "missing: ${names[*]}; install them with this system's package manager" \
      "(the Debian packages are: ${packages[*]})"
  elif ! may_install || [[ ! $use_sudo ]] || ! type -P "${install%% *}" >/dev/null; then
    say "missing: ${names[*]}; install with: $install"
  elif ! install_packages "${packages[@]}" || [[ $(missing "$1") ]]; then
    say "missing: ${names[*]}; $install failed: $(first_error "$packages_log") (log: $packages_log)"
  else
    return 0
  fi
  return 1
}

# ask_for_root GROUP...: asks whether sudo may install what the groups lack. Nobody is asked if nothing
# is missing, as root, or in CI. Without a terminal nobody can answer, so nothing is installed. sudo asks
# for its password here: in the background, where packages are installed, it could not.
use_sudo=yes
ask_for_root() {
  local group package packages=() answer=''
  may_install && [[ ! ${CI:-} ]] && ! is_root && type -P sudo apt-get >/dev/null || return 0
  for group; do
    while read -r _ package; do packages+=("$package"); done < <(missing "$group")
  done
  ((${#packages[@]})) || return 0
  if [[ -t 0 && -t 2 ]]; then
    read -r -p "${0##*/}: install ${packages[*]} with sudo apt-get? [y/N] " answer || true
    if [[ $answer == [yY]* ]] && sudo -v; then return 0; fi
  fi
  use_sudo=''
}

# install_packages PACKAGE...
install_packages() {
  local apt=(sudo env DEBIAN_FRONTEND=noninteractive apt-get -y --no-install-recommends
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=1
    -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20)
  ! is_root || apt=("${apt[@]:1}")
  say "installing packages: $* (log: $packages_log)"
  # One unreachable source fails the whole update but may not matter; the install decides.
  "${apt[@]}" update >"$packages_log" 2>&1 </dev/null || true
  "${apt[@]}" install "$@" >>"$packages_log" 2>&1 </dev/null
}

# ---- the Python environment

# python_has FILE...: whether .venv is complete and was made from exactly these requirement files.
python_has() {
  local file
  [[ -x $venv/bin/python ]] || return
  for file; do
    cmp -s "$file" "$venv/made-from/${file##*/}" || return 1
  done
}

# ensure_python LOSS FILE...: makes .venv from the requirement files. If that fails, one line says
# what is lost and why, and an earlier .venv stays in place.
ensure_python() {
  local loss=$1
  shift
  python_has "$@" && link_package && return
  if ! may_install; then
    say "$loss: .venv is missing or out of date, and installing is turned off"
    return 1
  fi
  ensure_packages python || return 1
  say "installing Python packages in $venv (log: $python_log)"
  if [[ -d $venv/made-from ]]; then
    rm -rf "$venv.previous"
    mv "$venv" "$venv.previous"
  fi
  rm -rf "$venv"
  if make_venv "$@" >"$python_log" 2>&1 </dev/null; then
    rm -rf "$venv.previous"
    return 0
  fi
  rm -rf "$venv"
  [[ ! -d $venv.previous ]] || mv "$venv.previous" "$venv"
  say "$loss: Python packages could not be installed (offline?):" \
    "$(first_error "$python_log") (log: $python_log)"
  return 1
}

# make_venv FILE...: made-from is written last, so only a complete .venv has it.
make_venv() {
  # An offline machine fails soon, unless its user has set longer timeouts.
  local -x PIP_DEFAULT_TIMEOUT=${PIP_DEFAULT_TIMEOUT:-15} PIP_RETRIES=${PIP_RETRIES:-1}
  "$(usable_python)" -m venv "$venv" &&
    "$venv/bin/python" -m pip install --no-input --disable-pip-version-check "${@/#/-r}" &&
    link_package &&
    mkdir "$venv/made-from" &&
    cp "$@" "$venv/made-from/"
}

# Makes the checkout's package .venv's own: the command `.venv/bin/overlapbench`, and its import. A
# linked .venv is another checkout's.
link_package() {
  local command=$venv/bin/overlapbench site
  [[ ! -L $venv && ! -e $command ]] || return 0
  for site in "$venv"/lib/python3*/site-packages; do
    [[ ! -d $site ]] || echo ../../../../tools >"$site/overlapbench.pth" || return
  done
  # Not Python: the path of a checkout may contain spaces, and so cannot follow "#!".
  # shellcheck disable=SC2016
  printf '%s\n' '#!/bin/sh' 'exec "${0%/*}/python" -m overlapbench "$@"' >"$command" &&
    chmod +x "$command"
}

# ---- the build

# configure DIRECTORY: configures it once, with the release preset. Ninja does so again when CMake's
# files change.
configure() {
  local log=$1/configure.log
  ! configured_here "$1" || return 0
  say "configuring and building in $1; the first time takes minutes"
  mkdir -p "$1"
  logged "$log" cmake --fresh -S "$root" --preset release -B "$1" ||
    fail 1 "configuring failed (log: $log)"
  # The project's own messages: which backends are built.
  sed -n "s/^-- overlapbench:/${0##*/}:/p" "$log" >&2
}

# A build folder that was copied or moved still points to its old place, where Ninja would loop
# forever.
configured_here() {
  [[ -e $1/build.ninja ]] &&
    grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$1/CMakeCache.txt" &&
    grep -qxF "CMAKE_CACHEFILE_DIR:INTERNAL=$1" "$1/CMakeCache.txt"
}

# build DIRECTORY TARGET: builds what has changed.
build() {
  local log=$1/build.log
  configure "$1"
  logged "$log" cmake --build "$1" --target "$2" || fail 1 "the build failed (log: $log)"
}

# logged LOG COMMAND...: writes the output to the log. Shows its last line on a terminal, and now and
# then elsewhere. Prints the whole log after a failure.
logged() {
  local log=$1 status=0 teller
  shift
  if [[ -t 2 ]]; then
    ("$@") 2>&1 </dev/null | tee "$log" | last_line >&2 || status=$?
  else
    : >"$log"
    tell_now_and_then "$log" &
    teller=$!
    ("$@") >"$log" 2>&1 </dev/null || status=$?
    kill "$teller" 2>/dev/null || true
    wait "$teller" 2>/dev/null || true
  fi
  ((status == 0)) || cat "$log" >&2
  return "$status"
}

# tell_now_and_then LOG: says every half minute (or OVERLAPBENCH_TELL_S seconds) what the log's last
# line is, until it is killed. That line may be one that it said in a log within the log. It waits by
# reading what never comes: a process that sleeps would outlive it.
tell_now_and_then() {
  local never line every=${OVERLAPBENCH_TELL_S:-30}
  exec {never}<> <(:)
  while ! read -r -t "$every" -u "$never"; do
    line=$(tail -n 1 "$1")
    say "still at it: ${line##*still at it: }"
  done
}

# Shows each line of stdin in place of the previous one.
last_line() {
  local line
  while IFS= read -r line; do printf '\r\033[K%s' "${line:0:${COLUMNS:-80}-1}"; done
  printf '\r\033[K'
}
