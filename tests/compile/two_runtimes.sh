#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles two_runtimes.cpp, and compares the lines that the compiler refuses with the expected
# ones. Then compiles the file without the refused lines, which must succeed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

file=two_runtimes.cpp
compile=("${CXX:-g++}" -std=c++20 -DMSSTREAM_CUDA=0 -I../../include -fsyntax-only)

# For an error inside a template, the compiler gives the line of the call in a note.
refused=$("${compile[@]}" "$file" 2>&1 |
  sed -nE "s/^$file:([0-9]+):.*(error:|required from here|requested here).*/\1/p" | sort -nu) || true
expected=$(grep -n '// refused$' "$file" | cut -d: -f1)
if [ "$refused" != "$expected" ]; then
  echo "$file: errors in the lines of the left column, expected in those of the right" >&2
  diff --side-by-side <(echo "$refused") <(echo "$expected") >&2
  exit 1
fi
if ! grep -v '// refused$' "$file" | "${compile[@]}" -x c++ -; then
  echo "$file: does not compile without the lines that must be refused" >&2
  exit 1
fi
echo "$file: $(wc -l <<<"$expected") mixtures of two runtimes, an error for each"
