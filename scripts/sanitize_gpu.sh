#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests with kernels and a full epoch of training under compute-sanitizer's memcheck,
# racecheck, initcheck and synccheck: scripts/sanitize_gpu.sh [--data FILE] [build folder]. Needs a
# machine with a GPU, after scripts/test.sh has built for it. TOOLS='memcheck racecheck' selects
# tools. ROOMS='kernels ops' selects rooms (test programs), and ROOMS=' ' only the epoch. JOBS=4
# checks run at the same time, for LIMIT_S=900 seconds each at most. Tests that repeat something do
# so a twentieth as often.
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
[ ${#tools[@]} -gt 0 ] || exit 2
read -ra rooms <<<"${ROOMS:-kernels ops capture step memory tensor stream runtime}"
jobs=${JOBS:-4}

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# Extra options of the tools. memcheck does not report API errors: the code checks return codes, and
# tests provoke errors. racecheck checks only msstream's kernels, not the shared memory of NVIDIA's.
# initcheck sometimes loses writes of kernels that run at the same time (docs/testing-reference.md),
# so launches block under it.
declare -A needs=([memcheck]='--report-api-errors no' [racecheck]='--kernel-name kernel_substring=msstream')

# Runs one check, and prints its result at its end, since checks run at the same time: check TOOL
# NAME COMMAND….
check() {
  local tool=$1 name=$2 log=$logs/$1.$2 started=$SECONDS status=0 options
  shift 2
  read -ra options <<<"${needs[$tool]:-}"
  timeout "${LIMIT_S:-900}" env CUDA_LAUNCH_BLOCKING="$([ "$tool" = initcheck ] && echo 1 || echo 0)" \
    compute-sanitizer --tool "$tool" "${options[@]}" --error-exitcode 9 "$@" >"$log" 2>&1 || status=$?
  if [ "$status" = 0 ] && { [ "$name" = epoch ] || grep -q '^\[  PASSED  \] [1-9]' "$log"; }; then
    echo "$tool $name: clean, $(grep -cE '^\[       OK' "$log") tests, $((SECONDS - started)) s" >"$log.result"
  else
    {
      echo "$tool $name: FAILED with $status after $((SECONDS - started)) s"
      grep -E '=========|FAILED|RUN|rror' "$log" | head -"${LINES_SHOWN:-20}"
      tail -5 "$log"
    } >"$log.result"
  fi
  cat "$log.result"
}

# Selects the tests on CUDA: typed tests on CUDA are named …/Cuda, …/cuda or …/1, after the second
# type of the list. Leaves out tests that destroy a stream while a gate is closed: under the tools,
# cudaStreamDestroy waits for all streams, so such tests would hang. Also leaves out tests that end
# child processes, which do not return under memcheck.
only_cuda='--gtest_filter=*uda*:*/1.*:*/2.*'
only_cuda+='-*destroying_a_stream_with_work_in_flight*:*work_marked_on_a_gone_stream*'
only_cuda+=':*a_new_stream_does_not_inherit*:*may_be_destroyed_with_work_in_flight*:ProcessEnd*'
checks=0
for tool in "${tools[@]}"; do
  for room in "${rooms[@]}"; do
    case $tool-$room in
      # racecheck only looks at shared memory, which the kernels in the tests of memory, stream and
      # runtime do not use.
      racecheck-memory | racecheck-stream | racecheck-runtime) continue ;;
      # Tests of tensor, memory, stream and runtime block streams with gates, at which launches
      # under initcheck wait forever.
      initcheck-tensor | initcheck-memory | initcheck-stream | initcheck-runtime) continue ;;
    esac
    MSSTREAM_TEST_SLOWDOWN=20 check "$tool" "$room" "$build/tests/test_$room" "$only_cuda" &
    checks=$((checks + 1))
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  done
  check "$tool" epoch "$build/examples/train_wdl/train_wdl" --runtime cuda --epochs 1 --quiet \
    "${data[@]}" &
  checks=$((checks + 1))
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
done
wait
[ "$(cat "$logs"/*.result | grep -c ': clean')" = "$checks" ]
