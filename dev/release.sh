#!/usr/bin/env bash
#
# Makes the files of a release. The version is written in CMakeLists.txt, from
# where the program, its CMake package and the Python package have it, and in the
# headings of CHANGELOG.md.
#
#   dev/release.sh name 0.2.0   write the version in both places, with today's
#                                 date
#   dev/release.sh build        from HEAD: the source archive, the wheel without
#                                 the program, and their checksums, in
#                                 build/dist/; and where docker or podman runs,
#                                 the image overlapbench:0.2.0
#
# Between the two, run ./check, commit, and tag the commit v0.2.0. The archive has
# the revision in a file, because it has no history. Wheel and image are built
# from the archive, so they have nothing that it lacks. Nothing is uploaded.
set -euo pipefail
# shellcheck source=tools/setup.sh
source "$(dirname "$(realpath -- "${BASH_SOURCE[0]}")")/../tools/setup.sh"
readonly dist=$root/build/dist

version() { sed -n 's/^project(overlapbench VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt"; }

# has_section VERSION: whether the changelog has it.
has_section() { grep -qF "## [$1] - " "$root/CHANGELOG.md"; }

name() {
  [[ $1 =~ ^(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}$ ]] ||
    fail 2 "a version is three numbers, as in 0.2.0, not '$1'"
  ! has_section "$1" || fail 1 "CHANGELOG.md already has a section for $1"
  grep -qxF "## [Unreleased]" "$root/CHANGELOG.md" ||
    fail 1 "CHANGELOG.md has no line '## [Unreleased]' above what is new"
  sed -i "s/^\(project(overlapbench VERSION \)[0-9.]*/\1$1/" "$root/CMakeLists.txt"
  sed -i -e "s/^## \[Unreleased\]$/&\n\n## [$1] - $(date -u +%F)/" \
    -e '/^This will be the first release/,/^$/d' "$root/CHANGELOG.md"
  say "named $1; run ./check, commit, tag it v$1, then run dev/release.sh build"
}

# The first engine for containers that answers; none is no error.
engine() {
  local engine
  for engine in docker podman; do
    ! timeout 20 "$engine" info &>/dev/null || { echo "$engine" && return; }
  done
}

# build_image VERSION REVISION SOURCE
build_image() {
  local engine
  engine=$(engine)
  [[ $engine ]] || { say "left out the image: neither docker nor podman runs here" && return; }
  "$engine" build --tag "overlapbench:$1" --build-arg "OVERLAPBENCH_REVISION=$2" "$3" >&2 ||
    fail 1 "$engine could not build the image, see above; archive and wheel are in build/dist/"
  say "$engine has the image overlapbench:$1"
}

build_files() {
  local version name source revision
  version=$(version)
  revision=$(git -C "$root" describe --always --abbrev=12)
  name=overlapbench-$version
  [[ ! $(git -C "$root" status --porcelain) ]] || fail 1 "uncommitted changes: a release is made of HEAD"
  has_section "$version" ||
    fail 1 "CHANGELOG.md has no section for $version; first run dev/release.sh name $version"
  [[ -x $venv/bin/python ]] || fail 1 "$venv is missing; first run ./bench --build-only"
  rm -rf "$dist" && mkdir -p "$dist"
  git -C "$root" archive --prefix="$name/" --output="$dist/$name.tar.gz" \
    --add-virtual-file="$name/REVISION:$revision" HEAD
  source=$(mktemp -d)
  # shellcheck disable=SC2064  # the folder of now
  trap "rm -rf '$source'" EXIT
  tar -xzf "$dist/$name.tar.gz" -C "$source"
  "$venv/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps \
    --config-settings wheel.cmake=false --wheel-dir "$dist" "$source/$name"
  (cd "$dist" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
  build_image "$version" "$revision" "$source/$name"
}

case $#:${1:-} in
  2:name) name "$2" ;;
  1:build) build_files ;;
  1:--help | 1:-h) sed -n '3,/^set/s/^# \{0,1\}//p' "$0" ;;
  *) fail 2 "dev/release.sh takes name VERSION or build; see --help" ;;
esac
