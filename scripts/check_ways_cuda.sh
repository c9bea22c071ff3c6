# shellcheck shell=bash disable=SC2034,SC2154  # scripts/check_ways.sh, which sources this file, has the variables
# SPDX-License-Identifier: Apache-2.0
# The ways of scripts/check_ways.sh with the CUDA runtime. They need nvcc, and no GPU.

# Fails with a message if there is no nvcc.
nvcc_is_there() { command -v nvcc >/dev/null || { say "left out: it needs nvcc" && return 1; }; }

# Prints the folder of the toolkit's libraries, which installed tools load, and of which the loader may not know.
toolkit_libraries() { printf '%s/lib64' "$(dirname "$(dirname "$(command -v nvcc)")")"; }

# Runs the quickstart on a GPU, if there is one: runs_or_says_why PROGRAM.
runs_or_says_why() {
  if "$1" 2>"$work/cuda quickstart"; then
    say "the quickstart ran on the GPU"
  else
    expect "the quickstart says why it has no GPU" -n "$(grep -F "device 0 asked, 0 visible (" "$work/cuda quickstart")"
  fi
}

# Configures and links the quickstart of a project, and runs it if there is a GPU:
# link_quickstart "what" PROJECT [CMake option…].
link_quickstart() {
  local what=$1 project=$2
  shift 2
  timed "$what: configured" cmake -G Ninja -S "$project" -B "$project/build" -D CMAKE_BUILD_TYPE=Release "$@"
  timed "$what: quickstart, linked" cmake --build "$project/build"
  runs_or_says_why "$project/build/quickstart"
}

# Compiles one kernel of a configured build, for one GPU: compile_a_kernel "what" FOLDER ARCHITECTURE.
compile_a_kernel() {
  local object
  object=$(ninja -C "$2" -t targets all | sed -n 's|^\(.*/kernels/ids/hash\.cu\.o\): CUDA_COMPILER.*|\1|p')
  expect "a kernel for the architecture $3, and for no other" \
    "$(ninja -C "$2" -t commands "$object" | grep -F hash.cu | grep -oE 'arch=compute_[0-9]+' | sort -u)" = "arch=compute_$3"
  expect "C++20 for CUDA" "$(ninja -C "$2" -t commands "$object" | grep -oE -- '-std=[a-z0-9+]+' | sort -u)" = -std=c++20
  timed "$1: a kernel compiled" cmake --build "$2" --target "$object"
}

cuda() {
  nvcc_is_there || return 0
  install_missing "${example_packages[@]}" rapidjson-dev libsqlite3-dev ||
    die "install what is missing, then run this again: $advice"
  local folder=$work/cuda\ subdirectory presets options major
  rm -rf "$folder" "$work/conan cuda"
  # The standards are those of the parent project.
  timed "add_subdirectory with CUDA: configured" cmake -G Ninja -S "$root/tests/consumer_subdirectory" -B "$folder" \
    -D MSSTREAM_SOURCE="$root" -D MSSTREAM_CUDA=ON -D CMAKE_CUDA_ARCHITECTURES=80 -D CMAKE_CXX_STANDARD=20 \
    -D CMAKE_CUDA_STANDARD=17
  compile_a_kernel "add_subdirectory with CUDA" "$folder" 80
  timed "add_subdirectory with CUDA: a user's program compiled" cmake --build "$folder" --target consumer_compiles

  environment "$work/environment"
  rm -rf "$work/nvtx"
  quietly "$work/environment/bin/pip" install --no-deps --target "$work/nvtx" nvidia-nvtx
  timed "add_subdirectory with PyPI's NVTX: configured" cmake -D MSSTREAM_NVTX="$(echo "$work"/nvtx/nvidia/*/include)" \
    "$folder"
  expect "the headers of PyPI's NVTX in front of the toolkit's" \
    -n "$(ninja -C "$folder" -t commands | grep -m 1 -E '/src/nvtx"? .*isystem [^ ]*/cuda' || true)"
  quietly "$work/environment/bin/pip" install conan
  export CONAN_HOME="$work/conan home"
  quietly "$work/environment/bin/conan" profile detect --force
  major=$(nvcc --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
  "$work/environment/bin/conan" build "$root/packaging/conan" --no-remote -s compiler.cppstd=20 \
    -o "cuda=$((25 - major))" --output-folder "$work/conan cuda" >"$work/other toolkit" 2>&1 || true
  grep -qF "needs nvcc of CUDA $((25 - major)), on the PATH or in /usr/local/cuda/bin; found CUDA $major" \
    "$work/other toolkit" || {
    cat "$work/other toolkit" >&2
    die "expected: Conan refuses a toolkit of another version"
  }
  rm -rf "$work/conan cuda"
  quietly "$work/environment/bin/conan" install "$root/packaging/conan" --no-remote -s compiler.cppstd=20 \
    -o "cuda=$major" -o cuda_architectures=80 -c tools.cmake.cmaketoolchain:generator=Ninja \
    -c tools.cmake.cmaketoolchain:user_presets= --output-folder "$work/conan cuda"
  # What the recipe gives CMake is in presets, which CMake would read in the sources alone.
  presets=$(find "$work/conan cuda" -name CMakePresets.json)
  mapfile -t options < <(python3 -c 'import json, sys
preset = json.load(open(sys.argv[1]))["configurePresets"][0]
print("-DCMAKE_TOOLCHAIN_FILE=" + sys.argv[2])
for name, value in preset["cacheVariables"].items():
    print(f"-D{name}={value}")' "$presets" "${presets%/*}/conan_toolchain.cmake")
  timed "Conan with CUDA: configured" cmake -G Ninja -S "$root" -B "$work/conan cuda/build" "${options[@]}"
  compile_a_kernel "Conan with CUDA" "$work/conan cuda/build" 80
}

wheel-cuda() {
  local file environment=$work/cuda_environment variant options documents
  nvcc_is_there || return 0
  variant=cu$(nvcc --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
  rm -rf "$root/build/wheel/$variant-build" "$root/build/wheel/dist/msstream_$variant"-* "$environment"
  MSSTREAM_WHEEL_OPTIONS="-Ccmake.define.MSSTREAM_KERNELS_IN_A_HURRY=ON" timed "wheel with CUDA built from nothing" \
    "$root/scripts/wheel.sh" cuda
  file=$(ls "$root/build/wheel/dist/msstream_$variant-$python_version"-*.whl)
  environment "$environment"
  timed "pip install" "$environment/bin/pip" install --no-index "$file"
  expect "the variant of the wheel" "$("$environment/bin/python" -m msstream --variant)" = "$variant"
  expect "the recorder in the wheel with CUDA" -n "$(find "$environment" -name libmsstream_overlap_record.so)"
  timed "wheel with CUDA: versions and components" cmake -G Ninja -S "$root/tests/ways/components" \
    -B "$work/cuda components" --fresh -D CMAKE_PREFIX_PATH="$("$environment/bin/python" -m msstream --prefix)" \
    -D EXPECTED_COMPONENTS="host;overlap;cuda"
  options=(-D msstream_DIR="$("$environment/bin/python" -m msstream --cmake-dir)")
  link_quickstart "wheel with CUDA: a user's project" "$(user_project cuda)" "${options[@]}"
  documents=$("$environment/bin/python" -m msstream --doc-dir)
  LD_LIBRARY_PATH=$(toolkit_libraries) expect_pages "$documents" "$environment/bin/msstream-overlap"
  link_quickstart "wheel with CUDA: the installed example" "$(installed_example "$documents")" "${options[@]}"
  timed "wheel with CUDA: import msstream_torch" "$environment/bin/python" -B "$root/tests/ways/wheel/torch_module.py"
}

deb-cuda() {
  nvcc_is_there || return 0
  local packages package extracted=$work/extracted\ cuda options documents
  install_missing lintian || die "install what is missing, then run this again: $advice"
  rm -rf "$root/build/deb" "$extracted"
  library_is_built=
  timed "Debian packages with CUDA built from nothing" "$root/scripts/deb.sh" -D MSSTREAM_CUDA=ON \
    -D MSSTREAM_KERNELS_IN_A_HURRY=ON
  packages=("$root"/build/deb/*.deb)
  expect "libmsstream-cuda-dev and msstream-cuda-tools" "${packages[*]##*/}" = \
    "$(printf '%s ' {libmsstream-cuda-dev,msstream-cuda-tools}"_$debian_version-1_$(dpkg --print-architecture).deb" |
      sed 's/ $//')"
  # The file names of development versions are long.
  timed "lintian" lintian --no-tag-display-limit --fail-on error,warning --suppress-tags package-has-long-file-name \
    "${packages[@]}"
  for package in "${packages[@]}"; do
    expect "$package stands in for the package without CUDA" \
      "$(dpkg-deb -f "$package" Provides)" = "$(dpkg-deb -f "$package" Conflicts) (= $debian_version)"
    dpkg-deb -x "$package" "$extracted"
  done
  if [ "$(id -u)" = 0 ]; then
    # Into a folder that stands for a system, and that lacks what the packages depend on. tests/ways/deb/deb_test.py
    # upgrades them, and swaps them with those without CUDA, with a stand-in for the library.
    local system=$work/system
    rm -rf "$system"
    mkdir -p "$system"/var/lib/dpkg/{updates,info}
    touch "$system"/var/lib/dpkg/{status,available}
    timed "install" dpkg --root="$system" --force-depends --log=/dev/null "--path-include=/usr/*" --install \
      "${packages[@]}"
    expect "the packages installed" "$(dpkg --root="$system" --list | grep -c '^ii .*msstream')" = 2
    diff -r "$system/usr" "$extracted/usr" || die "expected what the packages have, and nothing else"
    timed "remove" dpkg --root="$system" --remove libmsstream-cuda-dev msstream-cuda-tools
    expect "nothing left of the packages" -z "$(find "$system" -name '*msstream*' -not -path '*/var/lib/dpkg/*')"
  fi
  expect "the recorder in the packages" -n "$(find "$extracted" -name libmsstream_overlap_record.so)"
  # Its status is 1 without a GPU.
  "$extracted/usr/bin/msstream-doctor" --quick >"$work/doctor" || true
  expect "msstream-doctor with CUDA" -n "$(grep -F "built for CUDA and the host" "$work/doctor")"
  PYTHONPATH=$(dirname "$(find "$extracted" -name msstream_torch.py)") \
    timed "Debian packages with CUDA: import msstream_torch" python3 -B "$root/tests/ways/wheel/torch_module.py"
  timed "Debian packages with CUDA: versions and components" cmake -G Ninja -S "$root/tests/ways/components" \
    -B "$work/cuda components" --fresh -D CMAKE_PREFIX_PATH="$extracted/usr" -D EXPECTED_COMPONENTS="host;overlap;cuda"
  options=(-D CMAKE_PREFIX_PATH="$extracted/usr")
  link_quickstart "Debian packages with CUDA: a user's project" "$(user_project deb-cuda)" "${options[@]}"
  documents=$extracted/usr/share/doc/libmsstream-cuda-dev
  LD_LIBRARY_PATH=$(toolkit_libraries) expect_pages "$documents" "$extracted/usr/bin/msstream-overlap"
  link_quickstart "Debian packages with CUDA: the installed example" "$(installed_example "$documents")" "${options[@]}"
}
