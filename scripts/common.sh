# shellcheck shell=bash disable=SC2034  # the scripts that source this use the variables
# SPDX-License-Identifier: Apache-2.0
# Functions for the other scripts, which source this file: choosing the runtime to build for,
# installing packages, and building quietly. Messages go to stderr, so a program's standard output
# stays clean.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"

# Tests on real data read from the folder MSSTREAM_TEST_DATA. Without it they are skipped with a
# message.
if [ -z "${MSSTREAM_TEST_DATA:-}" ] && [ -d "$root/../shared/data" ]; then
  MSSTREAM_TEST_DATA=$(cd "$root/../shared/data" && pwd)
  export MSSTREAM_TEST_DATA
fi

build_packages=(g++ cmake ninja-build libeigen3-dev libfmt-dev nlohmann-json3-dev zlib1g-dev)
example_packages=(libcli11-dev)
# What programs can do without: --dashboard needs it. Installed before the first build, if that is
# permitted.
optional_packages=(libmicrohttpd-dev)
test_packages=(libgtest-dev libgmock-dev libdlpack-dev rapidjson-dev libsqlite3-dev)
# The presets asan, tsan and fuzz compile with clang 14, which takes half the time of g++ with
# sanitizers.
clang_packages=(clang-14 libclang-rt-14-dev llvm-14)

say() { printf 'msstream: %s\n' "$*" >&2; }
die() {
  say "$@"
  exit 1
}

# Sets the variable `commit` to the value of the option --commit: take_commit "$@", where the option is $1.
take_commit() {
  [ -n "${2:-}" ] || die "$1: expected a commit after it"
  commit=$2
}

# Prints the hash of a commit of this clone: hash_of COMMIT. Fails with a message if there is none.
hash_of() {
  git -C "$root" rev-parse --verify --quiet "$1^{commit}" ||
    die "expected a commit of a git clone of msstream in $root, found $1"
}

# Runs a command, and shows its output only if the command fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 </dev/null || status=$?
  [ "$status" = 0 ] || cat "$log" >&2
  rm -f "$log"
  return "$status"
}

# Sets the variable `preset` to the CMake preset to build with, and prints which runtime was chosen
# and why.
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

# Installs those of the named Debian packages that are missing. Fails if installing is not permitted
# or does not work; `advice` is then the command that installs them.
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
    # If there is no network, the package lists and cached packages of this machine may suffice.
    quietly "${sudo[@]}" apt-get update || true
    quietly "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y --no-install-recommends "${missing[@]}" && return
  fi
  return 1
}

# Makes a virtual environment of Python with pip: make_environment FOLDER. Fails if that does not
# work; `advice` is then the command to try.
make_environment() {
  # In Debian, Python has the module ensurepip only with the package python3-venv.
  python3 -c 'import ensurepip' 2>/dev/null || install_missing python3-venv || return 1
  advice="python3 -m venv '$1'"
  quietly python3 -m venv "$1"
}

# Lets g++ use a larger heap in builds that are configured after this: it spends an eighth of its time
# on garbage collection otherwise. It then takes up to 2 GB for one file.
use_larger_heap() {
  local option=--param=ggc-min-heapsize=4000000 kb
  kb=$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)
  if [ -z "${CXX:-}" ] && [ "$((${kb:-0} / $(nproc)))" -gt 3000000 ] && [[ ${CXXFLAGS:-} != *"$option"* ]]; then
    export CXXFLAGS="${CXXFLAGS:+$CXXFLAGS }$option"
  fi
}

# Configures the build of `preset`: configure PACKAGE… -- [cmake option…]. With MSSTREAM_IN_A_HURRY=ON
# in the environment, the build takes less time and is only to test. Installs the packages
# only if configuring fails without them, since CMake may find dependencies from other sources.
configure() {
  local packages=() command log batch=8 hurry=()
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
  if [ ! -e "$root/build/$preset/CMakeCache.txt" ]; then
    install_missing "${optional_packages[@]}" || say "no --dashboard: $advice"
  fi
  # Joining all sources of a target takes the least time in total, but would leave processors idle
  # on a machine with more than four.
  [ "$(nproc)" -gt 4 ] || batch=0
  case $preset in
    asan | tsan | fuzz) ;;
    *) use_larger_heap ;;
  esac
  [ "$preset" = cuda-compile ] || hurry=(-D MSSTREAM_IN_A_HURRY="${MSSTREAM_IN_A_HURRY:-OFF}")
  # What scripts/run.sh leaves out by "$@".
  hurry+=(-D MSSTREAM_PROGRAMS_WITH_OVERLAP=ON)
  command=(cmake -S "$root" --preset "$preset" -D CMAKE_UNITY_BUILD_BATCH_SIZE="$batch" "${hurry[@]}" "$@")
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

# Builds targets: build TARGET…. Shows progress on a terminal; elsewhere it prints nothing but the
# log of a failed build.
build() {
  local command=(cmake --build "$root/build/$preset" --parallel "$(nproc)" --target "$@")
  if [ -t 2 ]; then
    "${command[@]}" >&2
  else
    quietly "${command[@]}"
  fi
}
