#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs an example program, by default train_wdl, with the arguments: scripts/train.sh [train_wdl |
# train_ple | train_branches | train_rerank | train_dlrm | serve_wdl | serve_mlp] [argument…]. Builds it first if
# necessary. Runs on the GPU if there is a GPU and nvcc, otherwise on the CPU;
# MSSTREAM_BUILD_PRESET=host|cuda overrides the choice.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

program=train_wdl
case ${1-} in train_wdl | train_ple | train_branches | train_rerank | train_dlrm | serve_wdl | serve_mlp)
  program=$1
  shift
  ;;
esac

choose_preset
# An existing build folder may contain the tests, so its options are kept.
if [ ! -f "$root/build/$preset/build.ninja" ]; then
  configure "${build_packages[@]}" "${example_packages[@]}" -- -D MSSTREAM_BUILD_TESTS=OFF
fi
build "$program"
exec "$root/build/$preset/examples/$program/$program" "$@"
