# shellcheck shell=bash disable=SC2034,SC2154  # scripts/check_ways.sh, which sources this file, has the variables
# SPDX-License-Identifier: Apache-2.0
# The ways of scripts/check_ways.sh that need tools of PyPI: the wheel, pip install of the sources, Conan.

wheel() {
  local file project environment=$work/user_environment folder commands
  rm -rf "$root/build/wheel/host-build" "$root"/build/wheel/dist/msstream-*
  # The commands of the pages, in the folder of a project, with the Python of the system. They build the wheel from
  # nothing. The project is that of docs/install.md, too.
  folder="$work/trainer of the page"
  rm -rf "$folder"
  mkdir "$folder"
  block docs/install.md "An installed folder" cmake >"$folder/CMakeLists.txt"
  cp "$root/examples/quickstart/quickstart.cpp" "$folder/trainer.cpp"
  commands=$(block docs/install.md Wheel sh)
  expect "the commands of docs/install.md in README.md" "$(block README.md "In your project" sh)" = "$commands"
  (cd "$folder" && PATH=/usr/bin:/bin timed "wheel: the commands of docs/install.md" \
    bash -euo pipefail -c "${commands//..\/msstream/\"$root\"}")
  file=$(ls "$root/build/wheel/dist/msstream-$python_version"-*.whl)
  environment "$work/environment"
  quietly "$work/environment/bin/pip" install twine
  timed "twine check" "$work/environment/bin/twine" check --strict "$file"
  cp "$file" "$folder"
  rm -rf "$folder/.venv" "$folder/build"
  (cd "$folder" && PATH=/usr/bin:/bin timed "wheel: the commands of its own page" \
    bash -euo pipefail -c "$(block packaging/wheel/README.md "In your project" sh) && build/trainer")

  project=$(user_project wheel)
  rm -rf "$environment"
  spent=0
  timed "python -m venv" make_environment "$environment"
  timed "pip install" "$environment/bin/pip" install --no-index "$file"
  timed "wheel installed: quickstart by CMake" use_by_cmake "$project" \
    -D msstream_DIR="$("$environment/bin/python" -m msstream --cmake-dir)"
  expect_a_minute wheel
  # The wheel needs no fmt, and can be linked into shared libraries.
  quietly use_by_cmake "$project" -D CMAKE_PREFIX_PATH="$("$environment/bin/python" -m msstream --prefix)" \
    -D CMAKE_DISABLE_FIND_PACKAGE_fmt=ON -D WITH_OVERLAP=ON -D AS_SHARED_LIBRARY=ON
  quietly "$project/build/overlap"
  PKG_CONFIG_PATH=$("$environment/bin/python" -m msstream --pkgconfig-dir) \
    timed "wheel installed: quickstart by pkg-config" use_by_pkg_config "$project" g++
  diff -r "$root/packaging/notices" "$(find "$environment" -path '*msstream*/licenses/packaging/notices')" >&2 ||
    die "expected the licences of what the wheel contains compiled"
  expect "the version of the project in the wheel" "$("$environment/bin/python" -m msstream --version)" = "$python_version"
  quietly "$environment/bin/msstream-overlap" --list-causes
  quietly "$environment/bin/msstream-memory" --help
  quietly "$environment/bin/msstream-doctor" --quick
  expect_documents "$("$environment/bin/python" -m msstream --doc-dir)" "$environment/bin/msstream-overlap" \
    -D msstream_DIR="$("$environment/bin/python" -m msstream --cmake-dir)"

  folder="$work/scikit project"
  rm -rf "$folder"
  cp -r "$root/tests/ways/scikit" "$folder"
  cp "$root/examples/quickstart/quickstart.cpp" "$folder"
  quietly "$environment/bin/pip" install scikit-build-core
  timed "wheel installed: a project of scikit-build-core" "$environment/bin/pip" install --no-build-isolation "$folder"
  quietly "$environment/bin/python" -c "import ctypes, glob, sysconfig
[library] = glob.glob(sysconfig.get_path('platlib') + '/msstream_user/libquickstart.so')
assert ctypes.CDLL(library).main() == 0"
  timed "pip uninstall" "$environment/bin/pip" uninstall -y msstream
  expect "nothing left of the wheel" -z "$(find "$environment" -name 'msstream-overlap' -o -name 'msstream.hpp')"
}

pip() {
  local project environment=$work/pip_environment
  rm -rf "$environment"
  environment "$environment"
  # Joining all files of a target takes the least time on two processors.
  timed "pip install of the sources" "$environment/bin/pip" install "$root" \
    --config-settings cmake.define.CMAKE_UNITY_BUILD_BATCH_SIZE=0
  expect "the version of the project by pip install" "$("$environment/bin/python" -m msstream --version)" = \
    "$python_version"
  project=$(user_project pip)
  timed "sources installed by pip: quickstart" use_by_cmake "$project" \
    -D msstream_DIR="$("$environment/bin/python" -m msstream --cmake-dir)"
}

# Prints the id of the Conan package with some options, or why they are refused: conan_id OPTION….
conan_id() {
  "$work/environment/bin/conan" graph info "$root/packaging/conan" --no-remote -s compiler.cppstd=20 "$@" --format json \
    2>/dev/null | python3 -c 'import json, sys
node = json.load(sys.stdin)["graph"]["nodes"]["0"]
print(node["info_invalid"] or node["package_id"])'
}

# Packages for other GPUs and toolkits have other ids. Without CUDA, the GPUs do not count.
expect_conan_ids() {
  local ids option=cuda_architectures
  ids=$(conan_id && conan_id -o cuda=13 && conan_id -o cuda=12 && conan_id -o cuda=13 -o "$option=80" &&
    conan_id -o cuda=13 -o "$option=80;90")
  expect "five ids of Conan" "$(sort -u <<<"$ids" | wc -l)" = 5
  expect "the same GPUs in another order" "$(conan_id -o cuda=13 -o "$option=90;80")" = "$(tail -n 1 <<<"$ids")"
  expect "no GPUs without CUDA" "$(conan_id -o "$option=80")" = "$(head -n 1 <<<"$ids")"
  expect "native is refused" -n "$(conan_id -o cuda=13 -o "$option=native" | grep -F "such as 80;90")"
}

conan() {
  install_missing "${example_packages[@]}" rapidjson-dev libsqlite3-dev ||
    die "install what is missing, then run this again: $advice"
  environment "$work/environment"
  quietly "$work/environment/bin/pip" install conan
  rm -rf "$work"/conan*
  export CONAN_HOME="$work/conan home"
  quietly "$work/environment/bin/conan" profile detect
  "$work/environment/bin/conan" graph info "$root/packaging/conan" --no-remote -s compiler=gcc -s compiler.version=11 \
    -s compiler.cppstd=20 >"$work/old compiler" 2>&1 || true
  expect "gcc 11 refused" -n "$(grep -F "or clang 14 or newer; found gcc 11" "$work/old compiler")"
  expect_conan_ids
  timed "conan create, with test_package" "$work/environment/bin/conan" create "$root/packaging/conan" \
    -s compiler.cppstd=20 -c tools.cmake.cmaketoolchain:generator=Ninja --no-remote \
    -c "tools.cmake.cmaketoolchain:extra_variables={'CMAKE_UNITY_BUILD_BATCH_SIZE': '0'}" \
    -c "tools.cmake.cmake_layout:test_folder=$work/conan test"
  # A project of a user that has no CMake, by the files for pkg-config that Conan writes.
  mkdir -p "$work/conan user"
  printf '[requires]\nmsstream/%s\n[generators]\nPkgConfigDeps\n' "$version" >"$work/conan user/conanfile.txt"
  quietly "$work/environment/bin/conan" install "$work/conan user" -s compiler.cppstd=20 --no-remote \
    --output-folder "$work/conan user"
  PKG_CONFIG_PATH=$work/conan\ user timed "Conan package: quickstart by pkg-config" \
    use_by_pkg_config "$(user_project conan)" "g++ -std=c++20"
}
