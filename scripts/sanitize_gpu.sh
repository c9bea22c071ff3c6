#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/sanitize_gpu.sh [build folder]: the CUDA tests under compute-sanitizer's memcheck and racecheck, and a few
# steps of training under memcheck. For a machine with a GPU, after scripts/test.sh has built for it.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
build=${1:-build/cuda}
export PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"

failed=0
check() {
  local tool=$1 name=$2 log
  shift 2
  log=$(mktemp)
  if timeout 240 compute-sanitizer --tool "$tool" --error-exitcode 9 "$@" >"$log" 2>&1 &&
    { [ "$name" = train_wdl ] || grep -q '^\[  PASSED  \] [1-9]' "$log"; }; then
    echo "$tool $name: clean, $(grep -cE '^\[       OK' "$log") tests"
  else
    echo "$tool $name: FAILED"
    grep -E '=========|FAILED|rror' "$log" | head -40
    failed=1
  fi
  rm -f "$log"
}

# Typed tests on CUDA are called …/Cuda, …/cuda or …/1 after the second type of the list.
only_cuda='--gtest_filter=*uda*:*/1.*'
for room in kernels ops step memory tensor; do
  check memcheck "$room" "$build/tests/test_$room" "$only_cuda"
done
# Shared memory is used by kernels alone.
for room in kernels ops step; do
  check racecheck "$room" "$build/tests/test_$room" "$only_cuda"
done
check memcheck train_wdl "$build/examples/train_wdl/train_wdl" --runtime cuda --rows 4000 --steps 6 --quiet
exit "$failed"
