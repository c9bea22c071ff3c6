# shellcheck shell=bash disable=SC2034  # the scripts that source this use the variables
# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts beside it: which runtime to build for, what that needs, a quiet build.
# Messages go to stderr, so that a program's own output stays clean.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"

build_packages=(g++ cmake ninja-build libeigen3-dev nlohmann-json3-dev)
example_packages=(libcli11-dev zlib1g-dev)
test_packages=(libgtest-dev libgmock-dev)
# The presets asan, tsan and fuzz compile with it: under sanitizers it takes half the time of g++.
clang_packages=(clang-14 libclang-rt-14-dev llvm-14)

say() { printf 'msstream: %s\n' "$*" >&2; }
die() {
  say "$@"
  exit 1
}

# Runs a command without its output, which is shown only if it fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 </dev/null || status=$?
  [ "$status" = 0 ] || cat "$log" >&2
  rm -f "$log"
  return "$status"
}

# Sets `preset`, and says which runtime it is and why.
choose_preset() {
  local gpu why runtime=host
  gpu=$(nvidia-smi -L 2>/dev/null | sed -n 's/^GPU 0: \(.*\) (UUID.*/\1/p') || gpu=
  preset=host
  if [ -n "${MSSTREAM_BUILD_PRESET:-}" ]; then
    preset=$MSSTREAM_BUILD_PRESET why="MSSTREAM_BUILD_PRESET=$preset"
  elif [ -z "$gpu" ]; then
    why="nvidia-smi lists no GPU"
  elif ! command -v nvcc >/dev/null; then
    why="there is a GPU ($gpu), but no nvcc on the PATH or in /usr/local/cuda/bin"
  else
    preset=cuda why="$gpu and nvcc found"
  fi
  if [[ $preset == cuda* ]]; then
    runtime=CUDA
    [ -z "$gpu" ] || export CUDAARCHS="${CUDAARCHS:-native}"
  fi
  say "$runtime runtime: $why"
}

# Installs those of the named Debian packages that are missing. Where it may not, it fails, and
# `advice` is the command that does.
install_missing() {
  local missing=() package sudo=()
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
      missing+=("$package")
  done
  [ "${#missing[@]}" != 0 ] || return 0
  advice="sudo apt-get install --no-install-recommends ${missing[*]}"
  [ "$(id -u)" = 0 ] || sudo=(sudo -n)
  if command -v apt-get >/dev/null && "${sudo[@]}" true 2>/dev/null; then
    say "installing ${missing[*]}"
    # Without a network the lists at hand, or packages in the cache, may still do.
    quietly "${sudo[@]}" apt-get update || true
    quietly "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y --no-install-recommends "${missing[@]}" && return
  fi
  return 1
}

# configure PACKAGE… -- [cmake option…]: what CMake finds counts as installed, wherever it comes
# from; the packages are asked for only where configuring fails without them.
configure() {
  local packages=() command log batch=8
  while [ "$1" != -- ]; do
    packages+=("$1")
    shift
  done
  shift
  case $preset in
    asan | tsan | fuzz)
      install_missing "${clang_packages[@]}" || die "install what is missing, then run this again: $advice"
      ;;
  esac
  # Fewer and longer files take less time in all, and leave some of many processors idle.
  [ "$(nproc)" -gt 4 ] || batch=0
  command=(cmake -S "$root" --preset "$preset" -D CMAKE_UNITY_BUILD_BATCH_SIZE="$batch" "$@")
  log=$(mktemp)
  if ! "${command[@]}" >"$log" 2>&1; then
    if ! install_missing "${packages[@]}"; then
      cat "$log" >&2
      die "install what is missing, then run this again: $advice"
    fi
    quietly "${command[@]}" --fresh
  fi
  rm -f "$log"
}

# build TARGET…: a progress line on a terminal, silence elsewhere, and the log of a failure.
build() {
  local command=(cmake --build "$root/build/$preset" --parallel "$(nproc)" --target "$@")
  if [ -t 2 ]; then
    "${command[@]}" >&2
  else
    quietly "${command[@]}"
  fi
}
