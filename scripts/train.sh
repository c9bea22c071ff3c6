#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/train.sh [train_wdl | train_ple | train_branches | train_rerank | serve_wdl | serve_mlp] [argument…]: builds the program if need be,
# train_wdl where none is named, and runs it with the arguments.
# On a GPU where there is one and nvcc, else on the CPU; MSSTREAM_BUILD_PRESET=host|cuda overrides.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

program=train_wdl
case ${1-} in train_wdl | train_ple | train_branches | train_rerank | serve_wdl | serve_mlp)
  program=$1
  shift
  ;;
esac

choose_preset
# A build folder that is there may hold the tests too: leave its options alone.
if [ ! -f "$root/build/$preset/build.ninja" ]; then
  configure "${build_packages[@]}" "${example_packages[@]}" -- -D MSSTREAM_BUILD_TESTS=OFF
fi
build "$program"
exec "$root/build/$preset/examples/$program/$program" "$@"
