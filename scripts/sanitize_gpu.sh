#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/sanitize_gpu.sh [--data FILE] [build folder]: the tests with kernels and a full epoch of training
# under compute-sanitizer's memcheck, racecheck, initcheck and synccheck. For a machine with a GPU, after
# scripts/test.sh has built for it. TOOLS='memcheck racecheck' chooses tools, ROOMS='kernels ops' rooms, and
# ROOMS=' ' the epoch alone; JOBS=4 run beside each other, LIMIT_S=900 seconds each. Tests that repeat
# something do so a twentieth as often.
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
read -ra rooms <<<"${ROOMS:-kernels ops step memory tensor stream runtime}"
jobs=${JOBS:-4}

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# What a tool needs besides its name. Return codes are checked in the code, and tests provoke errors. The
# shared memory of NVIDIA's own kernels is not ours to check. Of kernels that run beside each other initcheck
# loses writes now and then (docs/testing.md), so launches block.
declare -A needs=([memcheck]='--report-api-errors no' [racecheck]='--kernel-name kernel_substring=msstream')

# check TOOL NAME COMMAND…: checks run beside each other, and each prints when it is done.
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

# Typed tests on CUDA are called …/Cuda, …/cuda or …/1 after the second type of the list. Under the tools
# cudaStreamDestroy waits for all streams, so a test that destroys one while a gate is closed cannot run.
only_cuda='--gtest_filter=*uda*:*/1.*:*/2.*'
only_cuda+='-*DestroyingAStreamWithWorkInFlight*:*WorkMarkedOnAGoneStream*:*ANewStreamDoesNotInherit*'
only_cuda+=':*may_be_destroyed_with_work_in_flight*'
checks=0
for tool in "${tools[@]}"; do
  for room in "${rooms[@]}"; do
    case $tool-$room in
      # No kernel of theirs has shared memory, and that is all that racecheck looks at.
      racecheck-memory | racecheck-stream | racecheck-runtime) continue ;;
      # Their tests hold streams back with gates, at which launches wait for ever under the tool.
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
