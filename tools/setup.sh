# shellcheck shell=bash
#
# What ./bench and ./check share: find what is missing, install it, configure and build.
#
# Sourced, never run; it defines functions and a few constants. Whether a thing is there is decided
# by looking for the thing itself, never by asking a package manager, so that a complete machine
# costs no time. What is missing comes from apt where there is one; Python packages, in the versions
# that tools/requirements*.txt pin, live in .venv/ and nowhere else. OVERLAPBENCH_NO_INSTALL=1 means
# that nothing is ever installed. Messages go to stderr, what installers and CMake say to build/.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
readonly root
readonly venv=$root/.venv
readonly packages_log=$root/build/setup-packages.log
readonly python_log=$root/build/setup-python.log

# Who needs it, kind and name of what is looked for, the Debian and Ubuntu package that brings it.
readonly needs='
build   command  g++                    g++
build   command  cmake                  cmake
build   command  ninja                  ninja-build
build   command  git                    git
build   command  mpicxx                 libopenmpi-dev
build   command  mpirun                 openmpi-bin
build   header   benchmark/benchmark.h  libbenchmark-dev
build   header   gtest/gtest.h          libgtest-dev
python  venv     python3-venv           python3-venv
check   command  shellcheck             shellcheck
browser browser  chromium               chromium
'

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# fail STATUS MESSAGE
fail() {
  say "$2"
  exit "$1"
}

may_install() { [[ ${OVERLAPBENCH_NO_INSTALL:-0} == 0 ]]; }

# alone COMMAND...: runs it while nobody else sets up or builds in this checkout.
alone() {
  mkdir -p "$root/build"
  (
    flock --nonblock 9 || say "waiting for another run that is setting up or building"
    flock 9
    "$@"
  ) 9>"$root/build/setup.lock"
}

# The first line in which apt or pip says what is wrong.
first_error() { grep -m1 -E '^(E|ERROR): ' "$1" || echo "no reason given"; }

# ---- distribution packages

# is_there KIND NAME
is_there() {
  case $1 in
    command) type -P "$2" >/dev/null ;;
    header) header_is_there "$2" ;;
    venv) usable_python >/dev/null ;;
    browser) browser_is_there ;;
  esac
}

# Looks where the compiler and CMake look unasked.
header_is_there() {
  local prefix prefixes
  IFS=: read -ra prefixes <<<"/usr:/usr/local:${CMAKE_PREFIX_PATH:-}"
  for prefix in "${prefixes[@]}"; do
    [[ -e $prefix/include/$1 ]] && return
  done
  return 1
}

# The system's, or Playwright's own. Ubuntu's package chromium-browser brings neither, but a snap,
# which most containers cannot run.
browser_is_there() {
  local browser
  for browser in chromium google-chrome google-chrome-stable; do
    ! type -P "$browser" >/dev/null || return 0
  done
  compgen -G "${PLAYWRIGHT_BROWSERS_PATH:-${HOME:-}/.cache/ms-playwright}/chromium-*" >/dev/null
}

# Prints a Python of at least 3.11 that can make environments (Debian ships that part on its own).
usable_python() {
  local python
  for python in python3 /usr/bin/python3; do
    "$python" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null &&
      echo "$python" && return
  done
  return 1
}

# missing GROUP: a line "name package" for each need of the group that is not there.
missing() {
  local group kind name package
  while read -r group kind name package; do
    [[ $group != "$1" ]] || is_there "$kind" "$name" || echo "$name $package"
  done <<<"$needs"
}

# ensure_packages GROUP: 0 when in the end all of the group is there; else says why in one line.
ensure_packages() {
  local name package names=() packages=()
  while read -r name package; do
    names+=("$name")
    packages+=("$package")
  done < <(missing "$1")
  ((${#names[@]})) || return 0

  local install="sudo apt-get install ${packages[*]}"
  ((EUID)) || install=${install#sudo }
  if ! type -P apt-get >/dev/null; then
    say "missing: ${names[*]}; install them with this system's package manager" \
      "(the Debian packages are: ${packages[*]})"
  elif ! may_install || ! type -P "${install%% *}" >/dev/null; then
    say "missing: ${names[*]}; install with: $install"
  elif ! install_packages "${packages[@]}" || [[ $(missing "$1") ]]; then
    say "missing: ${names[*]}; $install failed: $(first_error "$packages_log") (log: $packages_log)"
  else
    return 0
  fi
  return 1
}

# install_packages PACKAGE...
install_packages() {
  local apt=(sudo env DEBIAN_FRONTEND=noninteractive apt-get -y --no-install-recommends
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=1
    -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20)
  ((EUID)) || apt=("${apt[@]:1}")
  say "installing packages: $* (log: $packages_log)"
  # One unreachable source fails the whole update and need not matter: the install decides.
  "${apt[@]}" update >"$packages_log" 2>&1 </dev/null || true
  "${apt[@]}" install "$@" >>"$packages_log" 2>&1 </dev/null
}

# ---- the Python environment

# python_has FILE...: whether .venv was made, whole, from these very requirement files.
python_has() {
  local file
  [[ -x $venv/bin/python ]] || return
  for file; do
    cmp -s "$file" "$venv/made-from/${file##*/}" || return 1
  done
}

# ensure_python LOSS FILE...: makes .venv from the requirement files. When that is not possible, one
# line says what is lost and why, and the .venv that was there before, if any, stays.
ensure_python() {
  local loss=$1
  shift
  python_has "$@" && return
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

# make_venv FILE...: made-from is written last, so that only a whole .venv has it.
make_venv() {
  # An offline machine gets its answer soon, unless its user asked for more patience.
  local -x PIP_DEFAULT_TIMEOUT=${PIP_DEFAULT_TIMEOUT:-15} PIP_RETRIES=${PIP_RETRIES:-1}
  "$(usable_python)" -m venv "$venv" &&
    "$venv/bin/python" -m pip install --no-input --disable-pip-version-check "${@/#/-r}" &&
    mkdir "$venv/made-from" &&
    cp "$@" "$venv/made-from/"
}

# ---- the build

# configure DIRECTORY: once, with the release preset; Ninja does it again when CMake's files change.
configure() {
  local log=$1/configure.log
  ! configured_here "$1" || return 0
  say "configuring and building in $1; the first time takes minutes"
  mkdir -p "$1"
  logged "$log" cmake --fresh -S "$root" --preset release -B "$1" ||
    fail 1 "configuring failed (log: $log)"
  # What the project itself has to say: which backends are built.
  sed -n "s/^-- overlapbench:/${0##*/}:/p" "$log" >&2
}

# A build folder that was copied or moved still points to the old place, and Ninja goes round in
# circles in it.
configured_here() {
  [[ -e $1/build.ninja ]] &&
    grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$1/CMakeCache.txt" &&
    grep -qxF "CMAKE_CACHEFILE_DIR:INTERNAL=$1" "$1/CMakeCache.txt"
}

# build DIRECTORY TARGET: what has changed.
build() {
  local log=$1/build.log
  configure "$1"
  logged "$log" cmake --build "$1" --target "$2" || fail 1 "the build failed (log: $log)"
}

# logged LOG COMMAND...: output goes to the log, a terminal sees its last line go by, and a failure
# shows it whole.
logged() {
  local log=$1 status=0
  shift
  if [[ -t 2 ]]; then
    ("$@") 2>&1 </dev/null | tee "$log" | last_line >&2 || status=$?
  else
    ("$@") >"$log" 2>&1 </dev/null || status=$?
  fi
  ((status == 0)) || cat "$log" >&2
  return "$status"
}

# Shows each line of stdin in the place of the one before.
last_line() {
  local line
  while IFS= read -r line; do printf '\r\033[K%s' "${line:0:${COLUMNS:-80}-1}"; done
  printf '\r\033[K'
}

# What OpenMPI needs where ranks run as root or in a container. What the user has set stays.
set_mpi_environment() {
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  # Many containers forbid copying straight between processes, and each attempt prints an error.
  export OMPI_MCA_btl_vader_single_copy_mechanism=${OMPI_MCA_btl_vader_single_copy_mechanism:-none}
  # A host that cannot be reached any more is lost after 3 + 3 * 1 seconds of silence, and not after
  # 8 minutes. It must be before a rank's time-out: TCP asks nothing while it has something to say.
  export OMPI_MCA_oob_tcp_keepalive_time=${OMPI_MCA_oob_tcp_keepalive_time:-3}
  export OMPI_MCA_oob_tcp_keepalive_intvl=${OMPI_MCA_oob_tcp_keepalive_intvl:-1}
  export OMPI_MCA_oob_tcp_keepalive_probes=${OMPI_MCA_oob_tcp_keepalive_probes:-3}
}
