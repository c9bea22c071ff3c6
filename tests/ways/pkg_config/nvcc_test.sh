#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles user.cu with the flags that pkg-config prints for an installed library: nvcc_test.sh FOLDER, which has
# msstream.pc. The status 77 means that it is left out.
set -euo pipefail
export PKG_CONFIG_PATH=$1
PATH=$PATH:/usr/local/cuda/bin
folder=$(dirname "${BASH_SOURCE[0]}")
for tool in nvcc pkg-config; do
  if ! command -v "$tool" >/dev/null; then
    echo "left out: it needs $tool"
    exit 77
  fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# An nvcc that is too old has no C++20, and one that does not take the g++ of the machine compiles nothing.
touch "$work/empty.cu"
if ! nvcc -std=c++20 -c "$work/empty.cu" -o "$work/empty.o" 2>/dev/null; then
  echo "left out: $(command -v nvcc) compiles no C++20"
  exit 77
fi

cflags=() libs=()
eval "cflags=($(pkg-config --cflags msstream))" # eval: pkg-config escapes spaces in paths
nvcc "${cflags[@]}" -c "$folder/user.cu" -o "$work/user.o"

# nvcc prints the command of the linker without running it, with all that the module needs.
eval "libs=($(pkg-config --libs msstream-overlap msstream))"
nvcc --dryrun "$work/user.o" -o "$work/user" "${libs[@]}" 2>"$work/commands"
options=(-lmsstream -lmsstream_overlap -lpthread)
if [ -e "$(pkg-config --variable=libdir msstream)/libmsstream.a" ]; then
  options+=(--undefined=msstream_debug_types)
fi
for option in "${options[@]}"; do
  if ! grep -qE -- "(^|[ \"])$option([ \"]|\$)" "$work/commands"; then
    echo "expected $option in the linker's command, found: $(cat "$work/commands")" >&2
    exit 1
  fi
done
