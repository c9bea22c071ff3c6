#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages; see scripts/deb.sh --help.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'END_OF_USAGE'
scripts/deb.sh [CMake option…]

Builds libmsstream-dev and msstream-tools for the Debian of this machine, in build/deb, and prints their paths. With
-D MSSTREAM_CUDA=ON they are libmsstream-cuda-dev and msstream-cuda-tools. Options go to CMake, such as
-D CPACK_DEBIAN_PACKAGE_RELEASE=2 and -D MSSTREAM_DEB_MAINTAINER="Name <address>".
END_OF_USAGE
}
case ${1:-} in
  --help | -h) usage && exit ;;
esac

folder=$root/build/deb
install_missing "${build_packages[@]}" "${example_packages[@]}" rapidjson-dev libsqlite3-dev dpkg-dev ||
  die "install what is missing, then run this again: $advice"
# Position-independent code lets users link the library into shared libraries.
# Options of an earlier run are forgotten; objects whose options are the same are kept.
quietly cmake --fresh -G Ninja -S "$root" -B "$folder" -D CMAKE_BUILD_TYPE=Release -D CMAKE_INSTALL_PREFIX=/usr \
  -D CMAKE_POSITION_INDEPENDENT_CODE=ON -D CMAKE_UNITY_BUILD_BATCH_SIZE=0 -D MSSTREAM_NATIVE_ARCH=OFF \
  -D MSSTREAM_BUILD_TESTS=OFF -D MSSTREAM_BUILD_EXAMPLES=OFF "$@"
quietly cmake --build "$folder" --parallel "$(nproc)"
rm -f "$folder"/*.deb
(cd "$folder" && quietly cpack -G DEB)
printf '%s\n' "$folder"/*.deb
