#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles each public header alone, for the host and, where CUDA is installed, as in a CUDA build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

flags=(-std=c++20 -fsyntax-only -Wall -Wextra -Wshadow -Wpedantic -Werror -Iinclude)
variants=("-DMSSTREAM_CUDA=0")
cuda_include=${CUDA_HOME:-/usr/local/cuda}/include
[ ! -d "$cuda_include" ] || variants+=("-DMSSTREAM_CUDA=1 -isystem $cuda_include")

for variant in "${variants[@]}"; do
  # Included rather than compiled: #pragma once in the main file is a warning.
  # shellcheck disable=SC2086  # a variant is several words
  find include -name '*.hpp' -print0 |
    xargs -0 -P "$(nproc)" -I{} "${CXX:-g++}" "${flags[@]}" $variant -include {} -x c++ /dev/null
done
echo "headers: $(find include -name '*.hpp' | wc -l) compile alone (${#variants[@]} variants)"
