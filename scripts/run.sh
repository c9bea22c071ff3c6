#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs one program of examples/; see scripts/run.sh --help.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Prints the names of the programs, one a line.
programs() {
  local name
  for name in "$root"/examples/*/CMakeLists.txt; do
    name=$(basename "$(dirname "$name")")
    case $name in
      models | teach) ;;
      *) echo "$name" ;;
    esac
  done
  sed -n 's/^ *msstream_add_model(\([a-z_]*\) .*/\1/p' "$root/examples/models/CMakeLists.txt"
  sed -n 's/^ *msstream_teach\(_program\)\{0,1\}(\([a-z_]*\) .*/teach_\2/p' "$root/examples/teach/CMakeLists.txt"
}

usage() {
  cat <<'END'
scripts/run.sh PROGRAM [ARGUMENT…]

Builds the library and one program of examples/, no others, and runs it with the arguments. Runs on the GPU if there is a
GPU and nvcc, otherwise on the CPU; MSSTREAM_BUILD_PRESET=host|cuda overrides the choice.

A build folder that does not exist yet is made for little time to build, on the CPU: only kernels are fully optimised, and
--overlap is left out until a program gets it. `cmake --workflow --preset host` builds all of it as users have it.
build/cuda is made as users have it, but .ci/run leaves it in the hurried form, too slow to measure with: `cmake --preset
cuda` makes it a build of users again. A program that is run on CUDA, or gets --help, from a hurried build is preceded by
a line that says so.

  scripts/run.sh quickstart
  scripts/run.sh teach_two_streams
  scripts/run.sh train_ple --help

Programs (teach_interop and teach_from_cuda need CUDA):

END
  programs | paste -sd ' ' | fold -s -w 100 | sed -E 's/^(.*[^ ]) *$/  \1/'
}

case ${1-} in
  --help | -h) usage && exit ;;
  '') die "name a program; scripts/run.sh --help lists them" ;;
esac
program=$1
shift
programs | grep -x -- "$program" >/dev/null || die "there is no program '$program'; scripts/run.sh --help lists those that there are"
folder=$program
[[ $program != teach_* ]] || folder=teach
[ ! -f "$root/examples/models/$program.cpp" ] || folder=models

choose_preset
folder_of_build=$root/build/$preset
overlap=ON
# The first program of the host runtime is built in little time: the kernels are optimised as always,
# other code less, and reports on overlap are left out unless the program is asked for one.
if [ "$preset" = host ]; then
  export MSSTREAM_IN_A_HURRY="${MSSTREAM_IN_A_HURRY:-ON}"
  [[ " $*" == *" --overlap"* || -n ${MSSTREAM_OVERLAP:-} ]] || overlap=OFF
fi
cached() { grep -qs "^$1:BOOL=$2" "$folder_of_build/CMakeCache.txt"; }
# An existing build folder may contain the tests, so its options are kept.
if [ ! -f "$folder_of_build/build.ninja" ]; then
  configure "${build_packages[@]}" "${example_packages[@]}" -- \
    -D MSSTREAM_BUILD_TESTS=OFF -D MSSTREAM_PROGRAMS_WITH_OVERLAP="$overlap"
elif [ "$overlap" = ON ] && cached MSSTREAM_PROGRAMS_WITH_OVERLAP OFF; then
  # A preset would build the tests, too.
  quietly cmake -D MSSTREAM_PROGRAMS_WITH_OVERLAP=ON "$folder_of_build"
fi
build "$program"
if [[ $preset == cuda || " $* " == *" --help "* ]] && cached MSSTREAM_IN_A_HURRY ON; then
  say "build/$preset is hurried (MSSTREAM_IN_A_HURRY=ON): do not measure with it; cmake --preset $preset makes it a build of users"
fi
exec "$folder_of_build/examples/$folder/$program" "$@"
