#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles each public header alone: as in a CUDA build where CUDA is installed, else for the host.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

flags=(-std=c++20 -fsyntax-only -Wall -Wextra -Wshadow -Wpedantic -Werror -Iinclude)
runtimes="the host runtime"
cuda_include=${CUDA_HOME:-/usr/local/cuda}/include
if [ -d "$cuda_include" ]; then
  flags+=(-DMSSTREAM_CUDA=1 -isystem "$cuda_include")
  runtimes="both runtimes"
else
  flags+=(-DMSSTREAM_CUDA=0)
fi

# Included rather than compiled: #pragma once in the main file is a warning.
find include -name '*.hpp' -print0 |
  xargs -0 -P "$(nproc)" -I{} "${CXX:-g++}" "${flags[@]}" -include {} -x c++ /dev/null
echo "headers: $(find include -name '*.hpp' | wc -l) compile alone, with $runtimes"
