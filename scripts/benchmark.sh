#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/benchmark.sh [--out FOLDER] [--repetitions N] [--data census_income_kdd.csv.gz] [FILTER…]
# Builds the benchmarks, runs every suite and leaves its JSON in the folder, by default
# benchmarks/results/<device>-<date>; a FILTER is a regular expression over benchmark names, of
# which memory_workloads, a program of its own, is one. Then times the same training step in
# PyTorch where there is one, with --data an epoch as well.
# For CUDA where there is a GPU and nvcc; MSSTREAM_BUILD_PRESET=host|cuda overrides.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

out='' data='' repetitions=5 filters=()
while [ $# != 0 ]; do
  case $1 in
    --out | --repetitions | --data)
      [ $# -ge 2 ] || die "$1 needs a value"
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    -h | --help)
      sed -n '3,8s/^# //p' "${BASH_SOURCE[0]}"
      exit
      ;;
    -*) die "unknown option $1; see --help" ;;
    *)
      filters+=("$1")
      shift
      ;;
  esac
done
[ -z "$data" ] || [ -r "$data" ] || die "--data $data: there is no such file"

choose_preset
driver=none
device=$(sed -n '/^model name/{s/.*: //p;q}' /proc/cpuinfo)
if [[ $preset == cuda* ]]; then
  IFS=, read -r device driver < <(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader)
fi
driver=${driver# }
filter=.
[ "${#filters[@]}" = 0 ] || filter=$(
  IFS='|'
  printf %s "${filters[*]}"
)
# Words of letters and digits, joined by dashes.
slug=$(tr -cs 'A-Za-z0-9\n' - <<<"$device" | sed 's/^-*//; s/-*$//')
mkdir -p "${out:=$root/benchmarks/results/$slug-$(date +%F)}"
out=$(cd "$out" && pwd)
[ -z "$data" ] || data=$(realpath "$data")

options=(-D MSSTREAM_BUILD_BENCHMARKS=ON)
# A build folder that is there may hold the tests too: leave them.
[ -f "$root/build/$preset/build.ninja" ] || options+=(-D MSSTREAM_BUILD_TESTS=OFF)
configure "${build_packages[@]}" "${example_packages[@]}" libbenchmark-dev -- "${options[@]}"
build benchmarks train_wdl

commit=$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)
say "device $device, driver $driver, commit $commit, $repetitions repetitions, names matching $filter"
sed -n 's/^  static constexpr [^=]* \(k[A-Za-z]*\)\(.*\);$/msstream: size \1\2/p' \
  "$root/benchmarks/axes.hpp" >&2

cd "$root/build/$preset/benchmarks"
started=$SECONDS
for suite in *_benchmark; do
  say "$suite"
  quietly "./$suite" --benchmark_filter="$filter" --benchmark_repetitions="$repetitions" \
    --benchmark_context="device=$device,driver=$driver,commit=$commit" \
    --benchmark_out_format=json --benchmark_out="$out/${suite%_benchmark}.json"
  # A suite without a match writes an empty file.
  [ -s "$out/${suite%_benchmark}.json" ] || rm -f "$out/${suite%_benchmark}.json"
done

if [ "${#filters[@]}" = 0 ] || grep -qE "$filter" <<<memory_workloads; then
  say "memory_workloads"
  quietly ./memory_workloads --seeds 42,1,2,3 --repeats "$((3 * repetitions))" \
    --commit "$commit" --json "$out/memory_workloads.json"
fi

if grep -qs . "$out"/{embedding,segment,rows,jagged}.json; then
  if python3 -c 'import torch' 2>/dev/null; then
    say "torch_ops"
    python3 -B "$root/benchmarks/baselines/torch_ops.py" --repetitions "$repetitions" --out "$out/torch_ops.json" >/dev/null
  fi
  "$root/scripts/plot_roofline.py" "$out"
fi
if [ "${#filters[@]}" = 0 ]; then
  if python3 -c 'import torch' 2>/dev/null; then
    for model in ple branch; do
      say "torch_${model}_step"
      python3 -B "$root/benchmarks/baselines/torch_${model}_step.py" --out "$out/torch_${model}_step.json" >/dev/null
    done
    say "torch_census_step"
    python3 -B "$root/benchmarks/baselines/torch_census_step.py" ${data:+--data "$data"} \
      --out "$out/torch_census_step.json" >/dev/null
  else
    say "no PyTorch: its training step is left out"
  fi
  if [ -n "$data" ]; then
    say "an epoch of train_wdl"
    # From the file's folder, so that the report names the file alone.
    (cd "$(dirname "$data")" && "$root/build/$preset/examples/train_wdl/train_wdl" \
      --data "$(basename "$data")" --epochs 3 --quiet --report "$out/train_census.json" >/dev/null)
  fi
fi
say "$((SECONDS - started)) s; results in $out"
"$root/scripts/summarise_benchmarks.py" "$out"
