#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the library with other CUDA toolkits than the installed one; see --help.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'END'
scripts/check_toolkits.sh host            host code with the headers of CUDA 12.4
scripts/check_toolkits.sh kernels ARCH…   all kernels with the newest nvcc of PyPI, for one GPU after the other

ARCH is a compute capability without its point, such as 75, 80, 86, 89, 90, 100 or 120. Only checks that the code
compiles: kernels are compiled in a hurry, and nothing is linked. The toolkits come from PyPI's wheels, which need pip
and a network, and are kept in build/. PyPI has no nvcc older than 13.0.
END
}

# Downloads wheels of PyPI unless they are there, and unpacks them: unpack FOLDER REQUIREMENT…
unpack() {
  local folder=$1 wheel
  shift
  [ ! -f "$folder/complete" ] || return 0
  mkdir -p "$folder/wheels"
  quietly python3 -m pip download --no-deps --only-binary=:all: --dest "$folder/wheels" "$@" ||
    die "the CUDA toolkit could not be fetched from PyPI"
  for wheel in "$folder"/wheels/*.whl; do
    python3 -m zipfile -e "$wheel" "$folder"
  done
  rm -rf "$folder/wheels"
  touch "$folder/complete"
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

common=(-std=c++20 -DMSSTREAM_CUDA=1 -DFMT_USE_CONSTEXPR=1 -Iinclude -Isrc -Ikernels)
cd "$root"
case ${1:-} in
  host)
    toolkit=$root/build/cuda-12.4
    unpack "$toolkit" nvidia-cuda-runtime-cu12==12.4.127 nvidia-cuda-nvcc-cu12==12.4.131 \
      nvidia-cuda-cupti-cu12==12.4.127 nvidia-nvtx-cu12==12.4.127 nvidia-cublas-cu12==12.4.5.8
    headers=()
    for folder in "$toolkit"/nvidia/*/include; do
      headers+=(-isystem "$folder")
    done
    eigen=$(pkg-config --cflags-only-I eigen3 2>/dev/null || echo -I/usr/include/eigen3)
    mapfile -t files < <(git ls-files 'src/*_cuda.cpp')
    compile_each g++ "${common[@]}" -Wall -Wextra -Werror -fsyntax-only "${headers[@]}" -isystem "${eigen#-I}" \
      '-DMSSTREAM_CUDA_MAJOR="12"' '-DMSSTREAM_CUDA_LIBRARIES="/usr/local/cuda/lib64"'
    say "${#files[@]} files compile with the headers of CUDA 12.4"
    ;;
  kernels)
    [ $# -ge 2 ] || die "kernels: expected compute capabilities, such as 75 90"
    shift
    toolkit=$root/build/cuda-newest
    unpack "$toolkit" nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime nvidia-cuda-cccl nvidia-cublas
    chmod +x "$toolkit"/nvidia/cu*/bin/* "$toolkit"/nvidia/cu*/nvvm/bin/*
    nvcc=$(echo "$toolkit"/nvidia/cu*/bin/nvcc)
    version=$("$nvcc" --version | sed -n 's/.*, V//p')
    # Kernels of unique.cu would need more shared memory in a hurry than a block can have.
    mapfile -t hurried < <(git ls-files 'kernels/*.cu' | grep -v '/unique\.cu$')
    mapfile -t others < <(git ls-files 'kernels/*/unique.cu')
    for arch in "$@"; do
      [[ $arch =~ ^[0-9]+a?$ ]] || die "compute capability '$arch': expected one such as 90"
      started=$SECONDS
      options=("${common[@]}" -O1 --expt-relaxed-constexpr -arch "sm_$arch" -c -o /dev/null)
      files=("${hurried[@]}")
      compile_each "$nvcc" "${options[@]}" --Ofast-compile=max
      files=("${others[@]}")
      compile_each "$nvcc" "${options[@]}"
      say "$((${#hurried[@]} + ${#others[@]})) files of kernels compile with nvcc $version for sm_$arch," \
        "in $((SECONDS - started)) s"
    done
    ;;
  -h | --help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac
