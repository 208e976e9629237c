#!/usr/bin/env bash
#
# Measures the cost of overlap in your repository and compares it with the baseline, for example
# after a change of a kernel, NCCL, the driver or the container. The jobs beside this file, and the
# GitHub action, call it.
#
#   watch.sh STATE COMMAND...
#
# COMMAND measures once and writes its result to the file that OUT names, for example
#
#   watch.sh state sh -c 'pytest tests/performance --overlapbench-out="$OUT"'
#   watch.sh state sh -c 'overlapbench run --benchmark_filter=Overlap --benchmark_out="$OUT"'
#
# STATE is a folder that must survive from one job to the next. It holds the history of all results,
# and the baseline: the last accepted measurement. watch.sh writes to the current folder:
#
#   comparison.md          what changed, for a comment: title, commits, machine, findings
#   comparison.json        the same, for programs
#   dashboard/index.html   the report of this measurement, beside the baseline
#   dashboard/trend.html   the times of all benchmarks since the beginning
#   runs/              the results
#
#   RUNS=5   how many times COMMAND runs
#   ACROSS=      what may differ from the baseline: GPU, driver, NCCL, ranks, host, variables, ...
#                Set "host" where each job has another host name, as containers have
#   TITLE=overlap of the comment, where a job measures several kinds of machine
#   KEEP=false   true: the measurement is added to the history, under the commit that is checked
#                out in the current folder, and may become the baseline
#   ACCEPT=false true, with KEEP=true: it becomes the baseline, whatever the comparison says
#
# Without a baseline, a measurement with KEEP=true becomes the first one. Any other ends with status
# 3: there is nothing to compare with, and a change must not pass because the baseline is lost.
#
# Of many noisy benchmarks, some always look slower. One that is too noisy to tell fails only if it
# is slower than noise makes any of so many (overlapbench compare --allow-noise).
#
# A measurement becomes the baseline if nothing got worse. It also does if the two cannot be
# compared: a benchmark is gone or renamed, or the machine or the libraries differ. That run still
# ends with status 3 and says so; the next one has a baseline again. The baseline stays after a
# regression, if a benchmark is invalid or inconclusive, and if a run is incomplete or
# unreliable. To accept such a measurement, run once with ACCEPT=true.
#
# Exit status: that of `overlapbench compare`: 0 if nothing is worse, 1 for a regression, 3 if the
# comparison is inconclusive or there is no baseline; 0 also if ACCEPT has replaced the baseline. 2 if
# COMMAND failed, an argument is missing or wrong, or a result cannot be read. A dashboard that cannot
# be drawn changes none of this.
set -euo pipefail

(($# >= 2)) || { echo "usage: watch.sh STATE COMMAND..." >&2 && exit 2; }
readonly state=$1
shift
readonly baseline=$state/baseline
readonly runs=${RUNS:-5} title=${TITLE:-overlap}
[[ $runs =~ ^[1-9][0-9]{0,3}$ ]] ||
  { echo "watch.sh: RUNS: must be a number from 1 to 9999, not $runs" >&2 && exit 2; }
across=()
for what in ${ACROSS:-}; do across+=(--across "$what"); done
readonly across
accept=false
if [[ ${KEEP:-false} == true && ${ACCEPT:-false} == true ]]; then accept=true; fi
readonly accept

# Prints the commit of your repository, with -dirty if one of its files was changed. The results
# name overlapbench's own commit, which this history does not track.
revision() { git describe --always --exclude='*' --abbrev=12 --dirty || echo unknown; }

# fail MESSAGE: ends the job, and leaves a comment, since an older one would say something else.
fail() {
  printf '## %s: not measured\n\n%s\n' "$title" "$1" >comparison.md
  echo "watch.sh: $1" >&2
  exit 2
}

measure() {
  local number
  rm -rf runs dashboard comparison.md comparison.json
  mkdir -p runs dashboard "$state"
  for ((number = 1; number <= runs; ++number)); do
    echo "run $number of $runs" >&2
    OUT=$PWD/runs/$number.json "$@" || fail "$1 failed with status $?"
    [[ -s runs/$number.json ]] || fail "$1 wrote no result to \$OUT, $PWD/runs/$number.json"
  done
}

# compare REVISION: returns the status of the comparison.
compare() {
  local status=0 base=unknown
  if [[ ! -d $baseline ]]; then
    no_baseline
    return
  fi
  overlapbench compare --base "$baseline"/*.json --new runs/*.json "${across[@]}" --allow-noise \
    --title "$title" --output comparison.md --output comparison.json || status=$?
  if [[ -f comparison.md ]]; then
    [[ ! -f $baseline/commit ]] || base=$(<"$baseline/commit")
    sed -i "2a - commit $1, against $base" comparison.md
    findings
  fi
  return "$status"
}

no_baseline() {
  local told="This measurement is the first baseline." status=0
  if [[ ${KEEP:-false} != true ]]; then
    told="There is no baseline to compare with. The job's next run on the default branch makes one."
    status=3
  fi
  printf '## %s: no baseline\n\n%s\n' "$title" "$told" | tee comparison.md
  return "$status"
}

findings() {
  local told
  told=$(overlapbench findings runs/*.json) || return 0
  [[ ! $told ]] || printf '\n    %s\n' "${told//$'\n'/$'\n    '}" >>comparison.md
}

# draw COMMAND...: draws a part of the dashboard.
draw() { "$@" || echo "watch.sh: the dashboard is incomplete" >&2; }

# report STATUS
report() {
  local base=()
  [[ ! -f comparison.json || $1 == 2 ]] || base=(--base "$baseline"/*.json "${across[@]}")
  draw overlapbench report runs/*.json "${base[@]}" -o dashboard/index.html
}

# Prints the reasons for the comparison's status 3, one per line: the verdicts of the failing rows,
# and "doubt" for a run of this measurement that is incomplete or unreliable.
undecided() {
  sed -n '/^      "verdict": /{N;s/.*"verdict": "\([a-z ]*\)",\n *"fails": true,$/\1/p;}' comparison.json
  sed -n '/^  "doubts": \[$/,/^  \]/s|^    "runs/.*|doubt|p' comparison.json
}

# advances STATUS: succeeds if this measurement becomes the baseline.
advances() {
  local reasons
  [[ $1 != 0 ]] || return 0
  [[ $1 == 3 ]] || return 1
  reasons=$(undecided) || return 1
  [[ -n $reasons && -z $(sed '/^missing$/d;/^incomparable$/d' <<<"$reasons") ]]
}

# keep STATUS REVISION
keep() {
  local told="The baseline stays as it was. ACCEPT=true would make this measurement the baseline."
  overlapbench history add --database "$state/history.sqlite" --revision "$2" runs/*.json
  if [[ $accept == true ]] || advances "$1"; then
    rm -rf "$baseline"
    cp -r runs "$baseline"
    echo "$2" >"$baseline/commit"
    told="This measurement is the new baseline"
    if [[ $accept == true ]]; then
      told+=", because ACCEPT is true."
    else
      told+=", because the old one cannot be compared with it."
    fi
  fi
  [[ $1 == 0 ]] || printf '\n%s\n' "$told" | tee -a comparison.md
}

main() {
  local status=0 measured
  measured=$(revision)
  measure "$@"
  compare "$measured" || status=$?
  [[ $status == [013] || $accept == true ]] ||
    fail "the comparison failed; where the baseline is why, ACCEPT=true replaces it"
  report "$status"
  if [[ ${KEEP:-false} == true ]]; then keep "$status" "$measured"; fi
  if [[ -f $state/history.sqlite ]]; then
    draw overlapbench history trend --database "$state/history.sqlite" -o dashboard/trend.html
  fi
  [[ $accept == true ]] || return "$status"
}

main "$@"
