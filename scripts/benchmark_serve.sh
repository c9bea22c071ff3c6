#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/benchmark_serve.sh [--out FOLDER] [--repetitions N] [--seconds S] [--programs FOLDER]
#                            [--commit NAME] [ROW…]
# Measures serve_wdl and serve_mlp on the GPU, and for comparison one stream, a bare loop of replays
# and, if it is installed, PyTorch. Writes serve.json, torch_serve.json and the picture of the sweep
# to the folder, by default build/results/<device>-<date>. ROWs: captured, eager, one_thread,
# branches, fused, overhead, half, mlp, torch, checked, sweep, and overload, which takes ten minutes
# and is left out unless it is named.
# --programs: the examples folder of a build, to build nothing; --commit: the commit of that build.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

out='' repetitions=5 seconds=1 programs='' commit='' rows=()
while [ $# != 0 ]; do
  case $1 in
    --out | --repetitions | --seconds | --programs | --commit)
      [ $# -ge 2 ] || die "$1 needs a value"
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    -h | --help)
      sed -n '3,11s/^# //p' "${BASH_SOURCE[0]}"
      exit
      ;;
    -*) die "unknown option $1; see --help" ;;
    *)
      rows+=("$1")
      shift
      ;;
  esac
done
[ "${#rows[@]}" != 0 ] || rows=(captured eager one_thread branches fused overhead half mlp torch checked sweep)

IFS=, read -r device driver < <(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader) ||
  die "no GPU: what is measured here is for one"
driver=${driver# }
slug=$(tr -cs 'A-Za-z0-9\n' - <<<"$device" | sed 's/^-*//; s/-*$//')
mkdir -p "${out:=$root/build/results/$slug-$(date +%F)}"
if [ -z "$programs" ]; then
  choose_preset
  configure "${build_packages[@]}" "${example_packages[@]}" -- -D MSSTREAM_BUILD_TESTS=OFF
  build serve_wdl serve_mlp
  programs=$root/build/$preset/examples
fi

reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT

# Runs a program and writes its report: serve ROW PROGRAM OPTION…. If the program fails, prints a
# message and continues.
serve() {
  local row=$1 program=$2
  shift 2
  say "$row, $repetition of $repetitions: $program $*"
  "$programs/$program/$program" --runtime cuda --quiet "$@" --report "$reports/$row.$repetition.json" ||
    say "$row: $program failed"
}
measure() {
  case $1 in
    captured) serve "$1" serve_wdl --replicas 16 --branches 3 --clients 16 --seconds "$seconds" --baseline ;;
    eager) serve "$1" serve_wdl --no-capture --launch-threads per_group --replicas 8 --clients 8 --seconds "$seconds" --baseline ;;
    one_thread) serve "$1" serve_wdl --no-capture --launch-threads per_group --replicas 1 --clients 16 --seconds "$seconds" ;;
    branches) serve "$1" serve_wdl --replicas 16 --branches 3 --clients 16 --tf32 --seconds "$seconds" ;;
    fused) serve "$1" serve_wdl --tables fused --replicas 16 --depth 4 --clients 32 --tf32 --seconds "$seconds" ;;
    overhead) serve "$1" serve_wdl --tables fused --replicas 16 --depth 4 --clients 8 --in-flight 16 --tf32 --seconds "$seconds" --raw-loop ;;
    half) serve "$1" serve_wdl --tables fused --replicas 16 --depth 2 --clients 6 --tf32 --mode open --load-factor 0.5 --seconds "$seconds" ;;
    mlp) serve "$1" serve_mlp --threads 4 --iterations 5000 --tf32 --baseline ;;
    *) die "no row $1" ;;
  esac
}
for ((repetition = 1; repetition <= repetitions; ++repetition)); do
  for row in "${rows[@]}"; do
    case $row in
      torch | checked | sweep | overload) ;;
      *) measure "$row" ;;
    esac
  done
done
repetition=1 repetitions=1
for row in "${rows[@]}"; do
  case $row in
    torch)
      if python3 -c 'import torch' 2>/dev/null; then
        python3 -B "$root/benchmarks/baselines/torch_serve.py" --out "$out/torch_serve.json" >/dev/null
      else
        say "no PyTorch: the baseline is not measured"
      fi
      ;;
    checked) serve checked serve_wdl --tables fused --replicas 16 --depth 4 --clients 32 --check --swap-ms 100 --seconds 15 ;;
    sweep) serve sweep serve_wdl --sweep --sweep-replicas 1,2,4,8,16 --seconds 0.5 --warmup 0.2 --svg "$out/serve_sweep.svg" ;;
    overload) serve overload serve_wdl --tables fused --replicas 16 --tf32 --mode open --load-factor 2 --seconds 600 ;;
  esac
done

[ -n "$commit" ] || commit=$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)
python3 "$root/scripts/gather_reports.py" --device "$device" --driver "$driver" --commit "$commit" \
  --out "$out/serve.json" "$reports"/*.json
say "wrote $out/serve.json"
