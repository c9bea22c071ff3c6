#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds everything and runs all tests: scripts/test.sh [ctest argument…]. If there is a GPU and
# nvcc, includes the tests of the GPU. MSSTREAM_BUILD_PRESET=host|cuda|asan|tsan overrides the
# choice.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

choose_preset
configure "${build_packages[@]}" "${example_packages[@]}" "${test_packages[@]}" -- \
  -D MSSTREAM_BUILD_TESTS=ON
build all
cd "$root"
exec ctest --preset "$preset" --parallel "$(nproc)" "$@"
