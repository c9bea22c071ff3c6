#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles unnamed_guards.cpp with the compiler's default warnings, and compares the lines that warn
# with the expected ones.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

file=unnamed_guards.cpp
warned=$("${CXX:-g++}" -std=c++20 -DMSSTREAM_CUDA=0 -I../../include -I../../src -fsyntax-only "$file" 2>&1 |
  sed -nE "s/^$file:([0-9]+):.*warning: (ignoring|unused).*/\1/p" | sort -nu)
expected=$(grep -n '// warns$' "$file" | cut -d: -f1)
if [ "$warned" != "$expected" ]; then
  echo "$file: warnings in the lines of the left column, expected in those of the right" >&2
  diff --side-by-side <(echo "$warned") <(echo "$expected") >&2
  exit 1
fi
echo "$file: $(wc -l <<<"$expected") guards without a name, a warning for each"
