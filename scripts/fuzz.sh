#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the fuzz targets with libFuzzer; see scripts/fuzz.sh --help.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'END'
scripts/fuzz.sh [--keep] [SECONDS] [TARGET…]

Builds the preset `fuzz` (clang 14 with libFuzzer and the address and undefined-behaviour
sanitizers) and runs each target for SECONDS (60), all of them unless some are named: a target
NAME is tests/fuzz/NAME_fuzz.cpp, and its corpus tests/fuzz/corpus/NAME.

Inputs that reach new code are kept outside the tree, in MSSTREAM_FUZZ_FOLDER
(~/.cache/msstream-fuzz), and later runs begin with them. --keep then adds to the corpus in the
tree those of them, as few as possible, that reach more than it does.

A line a target: executions, executions a second, code edges and features reached, new inputs.
An input that breaks a target ends the run with status 1 and a command that replays it.

  scripts/fuzz.sh                  a minute each
  scripts/fuzz.sh 600 readers      ten minutes of one
  scripts/fuzz.sh --keep 300       five minutes each; the corpus grows by what is new
END
}

keep='' seconds=60 targets=()
for argument in "$@"; do
  case $argument in
    --help | -h) usage && exit ;;
    --keep) keep=yes ;;
    -*) die "unknown option $argument; scripts/fuzz.sh --help says what there is" ;;
    *[!0-9]*) targets+=("$argument") ;;
    *) seconds=$argument ;;
  esac
done
[ "$seconds" -gt 0 ] || die "expected a number of seconds above 0, found $seconds"

sources=("$root"/tests/fuzz/*_fuzz.cpp)
known=("${sources[@]##*/}")
known=("${known[@]%_fuzz.cpp}")
[ "${#targets[@]}" != 0 ] || targets=("${known[@]}")
for target in "${targets[@]}"; do
  [ -f "$root/tests/fuzz/${target}_fuzz.cpp" ] || die "no target $target, only: ${known[*]}"
done

preset=fuzz
configure "${build_packages[@]}" "${example_packages[@]}" --
build fuzzers

# Targets write their files to a scratch folder, which is in memory if possible and is removed at
# the end.
scratch=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")" msstream-fuzz.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
finds=${MSSTREAM_FUZZ_FOLDER:-${XDG_CACHE_HOME:-$HOME/.cache}/msstream-fuzz}

# Prints the value of the line `stat::NAME: value` in a log of libFuzzer: statistic NAME LOG.
statistic() { sed -n "s/^stat::$1: *//p" "$2"; }

# Runs one fuzz target. Prints its result line to standard output, and the log of a failure to
# standard error.
fuzz() {
  local name=$1 program="$root/build/$preset/tests/fuzz/fuzz_$1" corpus="$root/tests/fuzz/corpus/$1"
  local found="$finds/$1" broken="$finds/broken/$1" log="$scratch/$1.log" started="$scratch/$1.started"
  local options=() input reached before
  mkdir -p "$found" "$broken" "$corpus"
  [ ! -f "$root/tests/fuzz/$name.dict" ] || options+=(-dict="$root/tests/fuzz/$name.dict")
  touch "$started"
  if ! TMPDIR=$scratch "$program" -max_total_time="$seconds" -max_len=4096 -timeout=60 \
    -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$broken/" "${options[@]}" \
    "$found" "$corpus" </dev/null >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    input=$(find "$broken" -type f -newer "$started" -print -quit)
    say "$name: FAILED; replay: $program ${input:-"$corpus"/*}"
    return 1
  fi
  reached=$(sed -n 's/^#[0-9]*\tDONE *cov: \([0-9]*\) ft: \([0-9]*\).*/\1 edges, \2 features/p' "$log")
  printf '%s: %s executions, %s/s, %s, %s new inputs\n' "$name" \
    "$(statistic number_of_executed_units "$log")" "$(statistic average_exec_per_sec "$log")" \
    "${reached:-reached nothing}" "$(statistic new_units_added "$log")"
  if [ -n "$keep" ]; then
    before=$(find "$corpus" -type f | wc -l)
    TMPDIR=$scratch quietly "$program" -merge=1 -max_len=4096 "$corpus" "$found"
    say "$name: corpus of $before inputs, now $(find "$corpus" -type f | wc -l)"
  fi
}

# Runs as many targets at once as there are processors, since nearly all targets have one thread.
for target in "${targets[@]}"; do
  while [ "$(jobs -pr | wc -l)" -ge "$(nproc)" ]; do
    wait -n || true
  done
  { fuzz "$target" || touch "$scratch/$target.broken"; } &
done
wait
broken=("$scratch"/*.broken)
broken=("${broken[@]##*/}")
[ ! -f "$scratch/${broken[0]}" ] || die "broken: ${broken[*]%.broken}"
