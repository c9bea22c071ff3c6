#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/sanitize_gpu.sh [--data FILE] [build folder]: the CUDA tests and a full epoch of training under
# compute-sanitizer's memcheck, racecheck, initcheck and synccheck. For a machine with a GPU, after
# scripts/test.sh has built for it. TOOLS='memcheck racecheck' chooses tools, ROOMS='kernels ops' rooms.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"

data=()
if [ "${1:-}" = --data ]; then
  data=(--data "$2")
  shift 2
fi
build=${1:-build/cuda}
read -ra tools <<<"${TOOLS:-memcheck racecheck initcheck synccheck}"
read -ra rooms <<<"${ROOMS:-kernels ops step memory tensor stream runtime}"
jobs=${JOBS:-4}

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# check TOOL NAME COMMAND…: the line to print goes to a file of its own, so that checks run beside each other.
check() {
  local tool=$1 name=$2 log=$logs/$1.$2 started=$SECONDS status=0
  shift 2
  timeout "${LIMIT_S:-400}" compute-sanitizer --tool "$tool" --error-exitcode 9 "$@" >"$log" 2>&1 || status=$?
  if [ "$status" = 0 ] && { [ "$name" = epoch ] || grep -q '^\[  PASSED  \] [1-9]' "$log"; }; then
    echo "$tool $name: clean, $(grep -cE '^\[       OK' "$log") tests, $((SECONDS - started)) s" >"$log.result"
  else
    {
      echo "$tool $name: FAILED with $status after $((SECONDS - started)) s"
      grep -E '=========|FAILED|RUN|rror' "$log" | tail -"${LINES_SHOWN:-30}"
    } >"$log.result"
  fi
}

# Typed tests on CUDA are called …/Cuda, …/cuda or …/1 after the second type of the list.
only_cuda='--gtest_filter=*uda*:*/1.*:*/2.*'
for tool in "${tools[@]}"; do
  for room in "${rooms[@]}"; do
    check "$tool" "$room" "$build/tests/test_$room" "$only_cuda" &
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  done
  check "$tool" epoch "$build/examples/train_wdl/train_wdl" --runtime cuda --epochs 1 --quiet \
    "${data[@]}" &
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
done
wait
cat "$logs"/*.result
! grep -q FAILED "$logs"/*.result
