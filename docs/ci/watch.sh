#!/usr/bin/env bash
#
# Measures what overlap costs in your repository, and compares it with the measurement before: after
# a change of a kernel, or of NCCL, the driver or the container. The jobs beside this file, and the
# action of GitHub, call it.
#
#   watch.sh STATE COMMAND...
#
# COMMAND measures once and writes its result to the file that OUT names, for example
#
#   watch.sh state sh -c 'pytest tests/performance --overlapbench-out="$OUT"'
#   watch.sh state sh -c 'overlapbench run --benchmark_filter=Overlap --benchmark_out="$OUT"'
#
# STATE is a folder that must survive from one job to the next: the history of all results, and the
# baseline, which is the last measurement that was kept. Written to the current folder:
#
#   comparison.md          what changed, for a comment
#   dashboard/index.html   the report of this measurement, beside the baseline
#   dashboard/trend.html   the times of all benchmarks since the beginning
#   launches/              the results
#
#   LAUNCHES=5   how often COMMAND is run
#   ACROSS=      what may differ from the baseline: GPU, driver, NCCL, ranks
#   KEEP=false   true: the measurement is added to the history, under the commit that is checked
#                out in the current folder, and becomes the baseline unless something got worse
#
# Exit status: that of `overlapbench compare`: 0 if nothing is worse, 1 for a regression, 3 if it
# cannot be told; 2 if COMMAND failed, or an argument is missing.
set -euo pipefail

(($# >= 2)) || { echo "usage: watch.sh STATE COMMAND..." >&2 && exit 2; }
readonly state=$1
shift
readonly baseline=$state/baseline
across=()
for what in ${ACROSS:-}; do across+=(--across "$what"); done
readonly across

# Prints the commit of your repository, with -dirty if a file of it was changed. The results name
# that of overlapbench, which is not what this history is about.
revision() { git describe --always --exclude='*' --abbrev=12 --dirty || echo unknown; }

measure() {
  local number
  rm -rf launches dashboard comparison.md
  mkdir -p launches dashboard "$state"
  for ((number = 1; number <= ${LAUNCHES:-5}; ++number)); do
    echo "launch $number of ${LAUNCHES:-5}" >&2
    OUT=$PWD/launches/$number.json "$@" ||
      { echo "watch.sh: $1 failed with status $?" >&2 && exit 2; }
    [[ -s launches/$number.json ]] ||
      { echo "watch.sh: $1 wrote no result to \$OUT, $PWD/launches/$number.json" >&2 && exit 2; }
  done
}

# Returns the status of the comparison.
compare() {
  if [[ ! -d $baseline ]]; then
    echo "There is no baseline to compare with yet." | tee comparison.md
    return
  fi
  overlapbench compare --base "$baseline"/*.json --new launches/*.json "${across[@]}" \
    --output comparison.md
}

report() {
  local base=()
  [[ ! -d $baseline ]] || base=(--base "$baseline"/*.json "${across[@]}")
  overlapbench report launches/*.json "${base[@]}" -o dashboard/index.html
}

# keep STATUS REVISION
keep() {
  overlapbench history add --database "$state/history.sqlite" --revision "$2" launches/*.json
  [[ $1 != 0 ]] || { rm -rf "$baseline" && cp -r launches "$baseline"; }
}

main() {
  local status=0 measured
  measured=$(revision)
  measure "$@"
  compare || status=$?
  report
  if [[ ${KEEP:-false} == true ]]; then keep "$status" "$measured"; fi
  if [[ -f $state/history.sqlite ]]; then
    overlapbench history trend --database "$state/history.sqlite" -o dashboard/trend.html
  fi
  return "$status"
}

main "$@"
