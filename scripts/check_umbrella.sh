#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What <msstream/msstream.hpp> costs its user on the host: no CUDA header, at most 3 s to compile.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

limit_s=3
compile=("${CXX:-g++}" -std=c++20 -DMSSTREAM_CUDA=0 -Iinclude -include msstream/msstream.hpp -x c++ /dev/null)
headers=$("${compile[@]}" -M)
# The project's own headers are named relative to the root, all others by their full path.
if tr ' ' '\n' <<<"$headers" | grep -iE '^/.*/(cuda|cub|thrust|cublas|cupti|nccl|nvtx)[^/]*(\.h|/)'; then
  echo "umbrella: a host program gets the CUDA headers above" >&2
  exit 1
fi
# Processor time, so that a busy machine does not fail the check.
TIMEFORMAT=%U
seconds=$({ time "${compile[@]}" -fsyntax-only 2>&3; } 3>&2 2>&1)
echo "umbrella: ${seconds} s to compile, no CUDA header"
awk -v seconds="$seconds" -v limit="$limit_s" 'BEGIN { exit !(seconds <= limit) }'
