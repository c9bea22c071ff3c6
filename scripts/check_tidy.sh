#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lints the library's sources, the CPU kernels, the example programs with their libraries and all
# public headers with clang-tidy 14. clang-tidy 14 cannot parse the device code of CUDA 13, so it
# checks only the host files of the CUDA part.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"

preset=host
# Source files are joined and linted as one file, as the build joins most of them. Linting one file
# takes a fraction of the time, since each check also searches all standard headers of a file. Only
# the files written here may include source files.
if git grep -nE '^ *#include .*\.(cpp|cu)[">]' -- '*.cpp' '*.hpp' '*.cu' '*.cuh'; then
  die "no file may include a body, as those above do"
fi
[ -f build/host/compile_commands.json ] ||
  configure "${build_packages[@]}" "${example_packages[@]}" "${test_packages[@]}" --
joined=build/host/joined
rm -rf "$joined"
mkdir -p "$joined"
find include -name '*.hpp' ! -path include/msstream/comm/mpi.hpp | sort | sed 's|^include/\(.*\)|#include <\1>|' >"$joined/headers.cpp"
git ls-files 'kernels/*_host.cpp' | sed "s|.*|#include \"$root/&\"|" >"$joined/kernels"
split --number=r/2 --additional-suffix=.cpp "$joined/kernels" "$joined/kernels_"

install_missing clang-tidy-14 || die "install what is missing, then run this again: $advice"
tidy=clang-tidy-14
lint=("$tidy" --quiet --checks=-bugprone-suspicious-include --extra-arg=-Wno-unknown-warning-option
  --extra-arg=-Wno-unused-command-line-argument # the compilation database is written for g++
  --extra-arg-before=-include "--extra-arg-before=$root/scripts/source_location_for_tidy.hpp")
mapfile -t host_files < <(sed -n 's/^ *"file": "\(.*\)",\?$/\1/p' build/host/compile_commands.json |
  grep -E "^$root/(build/host/)?(src|apps|examples)/" | grep -v /msstream_switched.dir/ | sort -u)
other_files=("$joined/headers.cpp" "$joined"/kernels_*.cpp)
eigen=$(sed -n 's/.*-isystem \([^ ]*eigen3\).*/\1/p' build/host/compile_commands.json | head -n 1)
other_flags=(-std=c++20 -Iinclude -Ikernels -Isrc -Iapps ${eigen:+-isystem "$eigen"})
cuda_include=${CUDA_HOME:-/usr/local/cuda}/include
if [ -d "$cuda_include" ]; then
  # Programs link one of the two files that define Cuda::create_libraries(), so the one for PyTorch
  # is linted alone.
  torch=src/interop/torch_libraries_cuda.cpp
  other_files+=("$torch")
  for room in src examples; do
    git ls-files "$room/*_cuda.cpp" | grep -vxF "$torch" | sed "s|.*|#include \"$root/&\"|" >"$joined/cuda_$room.cpp"
  done
  other_files+=("$joined"/cuda_*.cpp)
  other_flags+=(-DMSSTREAM_CUDA=1 -isystem "$cuda_include"
    "-DMSSTREAM_CUDA_MAJOR='\"13\"'" "-DMSSTREAM_CUDA_LIBRARIES='\"/lib\"'")
else
  other_flags+=(-DMSSTREAM_CUDA=0)
fi

# Feeds all files to xargs as one queue, the slow ones first. Each line holds the arguments of one
# call.
{
  printf "%s -- ${other_flags[*]}\n" "${other_files[@]}"
  printf '%s -p build/host\n' "${host_files[@]}"
} | xargs -P "$(nproc)" -L 1 "${lint[@]}" 2> >(grep -vE 'warnings? (and .*)?generated' >&2)
echo "tidy: no complaint about ${#host_files[@]} host files, ${#other_files[@]} others"
