#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages; see scripts/deb.sh --help.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'END_OF_USAGE'
scripts/deb.sh [CMake option…]

Builds libmsstream-dev and msstream-tools for the Debian of this machine, in build/deb, and prints their paths. Their
version is that of scripts/version.sh --debian. With -D MSSTREAM_CUDA=ON they are libmsstream-cuda-dev and
msstream-cuda-tools. Options go to CMake, such as -D MSSTREAM_DEB_MAINTAINER="Name <address>".

With -D BUILD_SHARED_LIBS=ON they are the package of the shared libraries, such as libmsstream0.1, which is named after
their SONAMEs, and a libmsstream-dev with links to them in place of archives. The tools are those of a build without it.

What the packages have does not depend on what else this machine has. They have no msstream::mpi; with
-D MSSTREAM_MPI=/usr, libmsstream-dev has it. Those with CUDA have the recorder of msstream-overlap; without CUDA,
msstream-tools has it with -D MSSTREAM_CUPTI_HEADERS=<folder with cupti.h>. The same sources, in the same folder, give
packages of the same bytes: their files have the time of the commit.
END_OF_USAGE
}
case ${1:-} in
  --help | -h) usage && exit ;;
esac

folder=$root/build/deb
install_missing "${build_packages[@]}" "${example_packages[@]}" rapidjson-dev libsqlite3-dev dpkg-dev ||
  die "install what is missing, then run this again: $advice"
umask 022 # CPack makes folders with it
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$("$root/scripts/version.sh" --time)}
[ -z "$SOURCE_DATE_EPOCH" ] || export SOURCE_DATE_EPOCH
version=$("$root/scripts/version.sh" --debian)
export CUDAARCHS=${CUDAARCHS:-90} # CMake would choose the GPUs of this machine
recorder=(-D MSSTREAM_CUPTI_HEADERS=OFF) shared=()
for option in "$@"; do
  if [[ $option =~ ^(-D)?BUILD_SHARED_LIBS(:BOOL)?=(ON|1|TRUE|YES)$ ]]; then
    # The loader finds libraries in the system's folder without a path.
    shared=(-D CMAKE_INSTALL_RPATH= -D MSSTREAM_BUILD_TOOLS=OFF)
  fi
  if [[ $option =~ ^(-D)?MSSTREAM_CUDA(:BOOL)?=(ON|1|TRUE|YES)$ ]]; then
    recorder=()
    say "kernels for the architectures $CUDAARCHS; CUDAARCHS names others, such as '80;90'"
  fi
done
# Position-independent code lets users link the library into shared libraries.
# Options of an earlier run are forgotten; objects whose options are the same are kept.
quietly cmake --fresh -G Ninja -S "$root" -B "$folder" -D CMAKE_BUILD_TYPE=Release -D CMAKE_INSTALL_PREFIX=/usr \
  -D CMAKE_POSITION_INDEPENDENT_CODE=ON -D CMAKE_UNITY_BUILD_BATCH_SIZE=0 -D MSSTREAM_NATIVE_ARCH=OFF \
  -D MSSTREAM_BUILD_TESTS=OFF -D MSSTREAM_BUILD_EXAMPLES=OFF -D MSSTREAM_MPI=OFF -D MSSTREAM_DEB_VERSION="$version" \
  "${recorder[@]}" "${shared[@]}" "$@"
if grep -q '^MSSTREAM_CUPTI_HEADERS:.*NOTFOUND$' "$folder/CMakeCache.txt"; then
  die "packages with CUDA have the recorder of msstream-overlap: expected cupti.h in the CUDA toolkit, or" \
    "-D MSSTREAM_CUPTI_HEADERS=<folder with cupti.h>, or -D MSSTREAM_CUPTI_HEADERS=OFF for packages without"
fi
quietly cmake --build "$folder" --parallel "$(nproc)"
rm -f "$folder"/*.deb
(cd "$folder" && quietly cpack -G DEB)
printf '%s\n' "$folder"/*.deb
