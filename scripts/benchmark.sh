#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/benchmark.sh [--out FOLDER] [--repetitions N] [--data census_income_kdd.csv.gz] [FILTER…]
# Builds the benchmarks, runs every suite and writes its JSON to the folder, by default
# build/results/<device>-<date>. A FILTER is a regular expression for benchmark names, also for
# memory_workloads, which is a program of its own. If PyTorch is installed, times operations and
# training steps in PyTorch, too. With --data, also times epochs of the census data.
# Uses CUDA if there is a GPU and nvcc; MSSTREAM_BUILD_PRESET=host|cuda overrides the choice.
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
# Turns the device's name into words of letters and digits joined by dashes.
slug=$(tr -cs 'A-Za-z0-9\n' - <<<"$device" | sed 's/^-*//; s/-*$//')
mkdir -p "${out:=$root/build/results/$slug-$(date +%F)}"
out=$(cd "$out" && pwd)
[ -z "$data" ] || data=$(realpath "$data")

options=(-D MSSTREAM_BUILD_BENCHMARKS=ON)
# An existing build folder may contain the tests, so its setting is kept.
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
  if [ "$suite" = rows_beside_products_benchmark ]; then
    continue  # It is no suite: it prints tables, and has options of its own.
  fi
  say "$suite"
  quietly "./$suite" --benchmark_filter="$filter" --benchmark_repetitions="$repetitions" \
    --benchmark_context="device=$device,driver=$driver,commit=$commit" \
    --benchmark_out_format=json --benchmark_out="$out/${suite%_benchmark}.json"
  # A suite without a matching benchmark writes an empty file, which is removed.
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
    # Runs in the folder of the data file, so that the report contains the file's name without its
    # path.
    (cd "$(dirname "$data")" && "$root/build/$preset/examples/train_wdl/train_wdl" \
      --data "$(basename "$data")" --epochs 3 --quiet --report "$out/train_census.json" >/dev/null)
  fi
fi
say "$((SECONDS - started)) s; results in $out"
"$root/scripts/summarise_benchmarks.py" "$out"
