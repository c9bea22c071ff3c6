#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the public headers without any other source; see scripts/check_headers.sh --help.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"

usage() {
  cat <<'END'
scripts/check_headers.sh [--alone]

Compiles the public headers, warnings as errors: as in a CUDA build where CUDA is installed, else for
the host. The headers of a room are compiled as one file, in seconds. --alone compiles each by
itself, in minutes, which also finds what a header forgets to include and another of its room brings.
The header for programs that call MPI is left out: it includes <mpi.h>.
END
}

alone=''
for argument in "$@"; do
  case $argument in
    --help | -h) usage && exit ;;
    --alone) alone=yes ;;
    *) die "unknown option $argument; scripts/check_headers.sh --help says what there is" ;;
  esac
done

compile=("${CXX:-g++}" -std=c++20 -fsyntax-only -Wall -Wextra -Wshadow -Wpedantic -Werror -Iinclude)
runtimes="the host runtime"
cuda_include=${CUDA_HOME:-/usr/local/cuda}/include
if [ -d "$cuda_include" ]; then
  compile+=(-DMSSTREAM_CUDA=1 -isystem "$cuda_include")
  runtimes="both runtimes"
else
  compile+=(-DMSSTREAM_CUDA=0)
fi

public_headers() { find include -name '*.hpp' ! -path include/msstream/comm/mpi.hpp "$@"; }

# Headers are included and not compiled directly, since #pragma once in the main file is a warning.
count=$(public_headers | wc -l)
if [ -n "$alone" ]; then
  public_headers -print0 |
    xargs -0 -P "$(nproc)" -I{} "${compile[@]}" -include {} -x c++ /dev/null
  echo "headers: $count compile alone, with $runtimes"
else
  rooms=$(mktemp -d)
  trap 'rm -rf "$rooms"' EXIT
  # Includes the shortest headers first: they include the fewest others, so the headers after them
  # get the least from them.
  public_headers -printf '%s %p\n' | sort -n | while read -r _ header; do
    room=${header#include/msstream/}
    echo "#include <${header#include/}>" >>"$rooms/${room%%/*}.cpp"
  done
  printf '%s\0' "$rooms"/*.cpp | xargs -0 -P "$(nproc)" -n 1 "${compile[@]}"
  echo "headers: $count compile, room by room, with $runtimes"
fi
