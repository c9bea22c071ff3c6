#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the library with other CUDA toolkits than the installed one; see --help.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'END'
scripts/check_toolkits.sh oldest          host code with the headers of CUDA 12.4, of NCCL 2.19 and 2.28, and of the
                                          newest NVTX
scripts/check_toolkits.sh last12          host code with the headers of CUDA 12.9, the last of this major version, and of
                                          the newest NCCL
scripts/check_toolkits.sh kernels12 VERSION…  the syntax of all kernels with the headers, CUB and Thrust of CUDA 12.4 or
                                          12.9, for one GPU, by clang 19
scripts/check_toolkits.sh newest          host code, and CUDA code of programs and tests, with the newest toolkit and NCCL
                                          of PyPI
scripts/check_toolkits.sh kernels ARCH…   all kernels with the newest nvcc of PyPI, for one GPU after the other

ARCH is a compute capability without its point, such as 75, 80, 86, 89, 90, 100 or 120. Only checks that the code
compiles: kernels are compiled in a hurry, or only parsed, and nothing is linked. The toolkits come from PyPI's wheels
and are kept in build/. What cannot be fetched is left out; a file that does not compile is a failure. PyPI has no nvcc
older than 13.0.
END
}

# Says why nothing is checked, and ends the script without an error.
leave_out() {
  say "left out: $*"
  exit 0
}

# Downloads wheels of PyPI and unpacks them, unless the folder has these wheels: unpack FOLDER REQUIREMENT…
unpack() {
  local folder=$1 wheel
  shift
  [ "$(cat "$folder/complete" 2>/dev/null)" != "$*" ] || return 0
  rm -rf "$folder"
  mkdir -p "$folder/wheels"
  make_environment "$pip" || leave_out "$advice does not work"
  quietly "$pip/bin/pip" download --no-deps --only-binary=:all: --dest "$folder/wheels" "$@" ||
    leave_out "PyPI's wheels cannot be fetched: $*"
  for wheel in "$folder"/wheels/*.whl; do
    python3 -m zipfile -e "$wheel" "$folder"
  done
  rm -rf "$folder/wheels"
  printf '%s\n' "$*" >"$folder/complete"
}

# Prints the version of PyPI's newest package of a name, and nothing if PyPI cannot be asked.
newest_of() {
  make_environment "$pip" || return 0
  "$pip/bin/pip" install --dry-run --ignore-installed --no-deps --quiet --report - "$1" 2>/dev/null |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["install"][0]["metadata"]["version"])' 2>/dev/null || true
}

# Fetches the newest toolkit. If PyPI cannot be asked, the one of an earlier run serves.
unpack_newest() {
  local version
  version=$(newest_of nvidia-cuda-nvcc)
  if [ -z "$version" ]; then
    [ -f "$toolkit/complete" ] || leave_out "PyPI cannot be asked for its newest nvcc"
    say "PyPI cannot be asked for its newest nvcc: the one of an earlier run is used"
    return 0
  fi
  local release=${version%.*}  # the parts of a toolkit have one release, and each a last number of its own
  unpack "$toolkit" "nvidia-cuda-nvcc==$version" "nvidia-cuda-crt==$release.*" "nvidia-nvvm==$release.*" \
    "nvidia-cuda-runtime==$release.*" "nvidia-cuda-cccl==$release.*" "nvidia-cuda-cupti==$release.*" \
    "nvidia-nvtx==$release.*" nvidia-cublas
}

# Fetches the newest package of a name. If PyPI cannot be asked, the one of an earlier run serves:
# unpack_newest_of PACKAGE FOLDER.
unpack_newest_of() {
  local version
  version=$(newest_of "$1")
  if [ -n "$version" ]; then
    unpack "$2" "$1==$version"
  elif [ ! -f "$2/complete" ]; then
    leave_out "PyPI cannot be asked for its newest $1"
  fi
}

# Compiles the collectives with the headers of an NCCL that is unpacked in a folder, beside those of the toolkit in
# `options`: compile_collectives FOLDER "CUDA 12.4".
compile_collectives() {
  local header version
  header=$(echo "$1"/nvidia/*/include/nccl.h)
  [ -f "$header" ] || die "expected nccl.h in $1"
  version=$(sed -n 's/^#define NCCL_\(MAJOR\|MINOR\|PATCH\) *\([0-9]*\).*/\2/p' "$header" | paste -sd .)
  mapfile -t files < <(git ls-files 'src/comm/nccl/*_cuda.cpp')
  compile_each g++ "${options[@]}" -DMSSTREAM_NCCL=1 -isystem "${header%/*}"
  say "${#files[@]} files of collectives compile with the headers of $2 and NCCL $version"
}

# Checks that the library has NVTX's counters with the headers of another NVTX, in front of those of the toolkit in
# `options`: compile_counters FOLDER "CUDA 12.4".
compile_counters() {
  local headers
  headers=$(dirname "$(dirname "$(echo "$1"/nvidia/*/include/nvtx3/nvToolsExtCounters.h)")")
  g++ -isystem "$headers" "${options[@]/#-fsyntax-only/-E}" src/trace/counter_cuda.cpp >"$1/preprocessed"
  grep -q 'return nvtxCounterRegister' "$1/preprocessed" || die "no counters with NVTX's headers in $headers"
  mapfile -t files < <(git ls-files 'src/trace/*_cuda.cpp')
  compile_each g++ -isystem "$headers" "${options[@]}"
  say "${#files[@]} files of ranges and counters compile with the headers of $2 and the newest NVTX"
}

# Sets `files` to the sources of the host that CUDA's headers matter for.
find_host_files() {
  mapfile -t files < <({
    git ls-files 'src/*_cuda.cpp' 'tools/*_cuda.cpp' 'examples/*_cuda.cpp'
    git grep -lE '^ *#if.*MSSTREAM_CUDA' -- 'src/*.cpp' 'tools/*.cpp' 'apps/*.cpp' 'examples/*.cpp'
  } | sort -u)
}

# Compiles files by a command, as many at once as there are processors, and names those that fail.
compile_each() {
  local -a command=("$@")
  export -f compile_one
  printf '%s\0' "${files[@]}" |
    xargs -0 -P "$(nproc)" -I{} bash -c 'compile_one "$@"' compile_one {} "${command[@]}"
}
compile_one() {
  local file=$1 log
  shift
  log=$(mktemp)
  if ! "$@" "$file" >"$log" 2>&1; then
    printf 'msstream: %s does not compile:\n' "$file" >&2
    grep -E 'error' "$log" | head -n 5 >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

# Fetches a toolkit of CUDA 12, of whose nvcc PyPI has all but the compiler: unpack_12 12.4|12.9.
unpack_12() {
  toolkit=$root/build/cuda-$1
  local cublas="$1.*"
  [ "$1" = 12.4 ] && cublas=12.4.5.8
  unpack "$toolkit" "nvidia-cuda-runtime-cu12==$1.*" "nvidia-cuda-nvcc-cu12==$1.*" "nvidia-cuda-cupti-cu12==$1.*" \
    "nvidia-nvtx-cu12==$1.*" "nvidia-cuda-cccl-cu12==$1.*" "nvidia-cublas-cu12==$cublas"
}

# Sets `options` to those of clang for CUDA code with the headers of the toolkit.
clang_options() {
  local headers=() folder for_clang=$toolkit/for-clang
  # clang expects one folder. It includes a header of cuRAND, of which it uses nothing.
  rm -rf "$for_clang"
  mkdir -p "$for_clang/bin" "$for_clang/stub"
  ln -s "$toolkit/nvidia/cuda_runtime/include" "$for_clang/include"
  ln -s "$toolkit/nvidia/cuda_nvcc/nvvm" "$for_clang/nvvm"
  : >"$for_clang/stub/curand_mtgp32_kernel.h"
  for folder in "$for_clang/stub" "$toolkit"/nvidia/*/include; do
    headers+=(-isystem "$folder")
  done
  options=("${common[@]}" -x cuda "--cuda-path=$for_clang" --cuda-gpu-arch=sm_90 -fsyntax-only "${headers[@]}"
    -Wno-unknown-cuda-version -Wno-unknown-attributes -include "$root/scripts/cuda_for_clang.hpp")
}

common=(-std=c++20 -DMSSTREAM_CUDA=1 -DFMT_USE_CONSTEXPR=1 -Iinclude -Isrc -Ikernels -Itools -Iapps)
pip=$root/build/toolkits-pip
cd "$root"

# Sets `options` to those of g++ for host code with the headers of the toolkit: host_options MAJOR.
host_options() {
  local headers=() folder eigen
  for folder in "$toolkit"/nvidia/*/include; do
    headers+=(-isystem "$folder")
  done
  eigen=$(pkg-config --cflags-only-I eigen3 2>/dev/null || echo -I/usr/include/eigen3)
  options=("${common[@]}" -Wall -Wextra -Werror -fsyntax-only "${headers[@]}" -isystem "${eigen#-I}"
    "-DMSSTREAM_CUDA_MAJOR=\"$1\"" '-DMSSTREAM_CUDA_LIBRARIES="/usr/local/cuda/lib64"'
    '-DMSSTREAM_CUDA_ARCHITECTURES="90"' '-DMSSTREAM_MPI_LIBRARY="none"' -DMSSTREAM_WITH_NCCL=0)
}

# Finds the newest nvcc, and its version.
use_newest() {
  toolkit=$root/build/cuda-newest
  unpack_newest
  chmod +x "$toolkit"/nvidia/cu*/bin/* "$toolkit"/nvidia/cu*/nvvm/bin/*
  nvcc=$(echo "$toolkit"/nvidia/cu*/bin/nvcc)
  version=$("$nvcc" --version | sed -n 's/.*, V//p')
}
case ${1:-} in
  oldest)
    unpack_12 12.4
    # The oldest NCCL that docs/several-gpus.md names, and one with all that the library uses.
    nccl_versions=(2.19.3 2.28.9)
    for version in "${nccl_versions[@]}"; do
      unpack "$root/build/nccl-$version" "nvidia-nccl-cu12==$version"
    done
    host_options 12
    find_host_files
    compile_each g++ "${options[@]}"
    say "${#files[@]} files compile with the headers of CUDA 12.4"
    for version in "${nccl_versions[@]}"; do
      compile_collectives "$root/build/nccl-$version" "CUDA 12.4"
    done
    unpack_newest_of nvidia-nvtx "$root/build/nvtx-newest"
    compile_counters "$root/build/nvtx-newest" "CUDA 12.4"
    ;;
  last12)
    unpack_12 12.9
    host_options 12
    find_host_files
    compile_each g++ "${options[@]}"
    say "${#files[@]} files compile with the headers of CUDA 12.9"
    unpack_newest_of nvidia-nccl-cu12 "$root/build/nccl-newest-cu12"
    compile_collectives "$root/build/nccl-newest-cu12" "CUDA 12.9"
    ;;
  kernels12)
    shift
    [[ " $* " =~ ^( (12\.4|12\.9))+\ $ ]] || die "kernels12: expected 12.4, 12.9 or both, found: $*"
    install_missing clang-19 || leave_out "$advice does not work"
    mapfile -t files < <(git ls-files 'kernels/*.cu' 'src/*.cu' 'tools/*.cu')
    for version in "$@"; do
      unpack_12 "$version"
      clang_options
      compile_each clang++-19 "${options[@]}"
      say "${#files[@]} files with kernels compile with clang 19 and the headers of CUDA $version"
    done
    ;;
  newest)
    use_newest
    host_options "${version%%.*}"
    find_host_files
    compile_each g++ "${options[@]}"
    host_files=${#files[@]}
    unpack_newest_of "nvidia-nccl-cu${version%%.*}" "$root/build/nccl-newest"
    compile_collectives "$root/build/nccl-newest" "CUDA $version"
    mapfile -t files < <(git ls-files 'tests/*.cu' 'examples/*.cu' 'benchmarks/*.cu' 'interop/*.cu')
    compile_each "$nvcc" "${common[@]}" -O1 --expt-relaxed-constexpr -arch sm_90 -c -o /dev/null --Ofast-compile=max \
      -Itests -Ibenchmarks -I"$root/examples/teach"
    say "$host_files files of the host and ${#files[@]} of programs and tests compile with CUDA $version"
    ;;
  kernels)
    [ $# -ge 2 ] || die "kernels: expected compute capabilities, such as 75 90"
    shift
    use_newest
    # Kernels of unique.cu would need more shared memory in a hurry than a block can have.
    mapfile -t hurried < <(git ls-files 'kernels/*.cu' 'src/*.cu' 'tools/*.cu' | grep -v '/unique\.cu$')
    mapfile -t others < <(git ls-files 'kernels/*/unique.cu')
    for arch in "$@"; do
      [[ $arch =~ ^[0-9]+a?$ ]] || die "compute capability '$arch': expected one such as 90"
      started=$SECONDS
      options=("${common[@]}" -O1 --expt-relaxed-constexpr -arch "sm_$arch" -c -o /dev/null)
      files=("${hurried[@]}")
      compile_each "$nvcc" "${options[@]}" --Ofast-compile=max
      files=("${others[@]}")
      compile_each "$nvcc" "${options[@]}"
      say "$((${#hurried[@]} + ${#others[@]})) files with kernels compile with nvcc $version for sm_$arch," \
        "in $((SECONDS - started)) s"
    done
    ;;
  -h | --help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac
