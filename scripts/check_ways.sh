#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the ways to get msstream into a project; see scripts/check_ways.sh --help.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/check_ways_pypi.sh
source "$(dirname "${BASH_SOURCE[0]}")/check_ways_pypi.sh"
# shellcheck source=scripts/check_ways_cuda.sh
source "$(dirname "${BASH_SOURCE[0]}")/check_ways_cuda.sh"

usage() {
  cat <<'END_OF_USAGE'
scripts/check_ways.sh [WAY…]

Builds a user's project by each of the named ways of docs/install.md, all of them unless some are named, and prints how
long each took. From the wheel and from the Debian packages to the quickstart's output, more than a minute of processor
time is a failure. Work goes to build/ways. Packages of Debian and PyPI that are missing are installed. Ways:

  archive  the release archive: equal bytes from two runs, its bill of materials, the sources read-only
  sources  FetchContent of the release archive: the library and the quickstart, built and run; the same by CPM, for
           which a file of a few lines stands; only if it is named
  prefix   cmake --install, moved afterwards; find_package with versions and components; pkg-config, also by Meson;
           the pages and the example; DESTDIR; uninstall
  shared   shared libraries: their Debian packages, as above; cmake --install, moved: find_package, a shared library of
           a user, pkg-config; only if it is named
  deb      the Debian packages: lintian, equal bytes from two runs, install, use, the pages and the example, upgrade,
           remove (as root; otherwise extracted and used)
  recipes  the recipes of vcpkg and Spack, which cannot be run without their registries: their syntax and versions; that
           of vcpkg with stand-ins for vcpkg's functions
  wheel    the wheel: twine, the commands of docs/install.md with the Python of the system, pip install, a project by
           CMake, pkg-config and scikit-build-core, the tools
  pip      pip install of the sources, which builds the library again, and a project by CMake; only if it is named
  conan    the Conan package with its test_package, built from the sources; packages for other GPUs have other ids
  cuda     the CUDA runtime by add_subdirectory and by Conan: configured, and a kernel and a program of a user compiled;
           only if it is named, and left out without nvcc, as the next two
  wheel-cuda  the wheel with the CUDA runtime, its kernels compiled in a hurry: components, the quickstart linked, and
           the module msstream_torch with a stand-in for PyTorch
  deb-cuda  the Debian packages with the CUDA runtime, its kernels compiled in a hurry: lintian, install and remove in a
           folder (as root), the same as of the wheel
END_OF_USAGE
}

work=$root/build/ways
version=$(sed -n 's/^project(msstream VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
# The versions by which packages are called, of the sources as they are and of the last commit.
python_version=$("$root/scripts/version.sh")
debian_version=$("$root/scripts/version.sh" --debian)
release=msstream-$("$root/scripts/version.sh" --commit HEAD)
# The oldest clang that compiles msstream, and one that writes concepts into symbols, unlike g++ 12.
compilers=(clang-14 clang-19)

# Prints a line and fails unless a condition of `test` holds: expect "what" CONDITION…
expect() {
  local what=$1
  shift
  test "$@" || die "expected: $what (test $*)"
}

# Sets `ms` to the milliseconds of processor time that this shell and its children have taken.
processor_ms() {
  times >"$work/times" # not in a pipe: a subshell has times of its own
  ms=$(awk -F '[ms ]+' '{ for (i = 1; i < NF; i += 2) ms += 60000 * $i + 1000 * $(i + 1) } END { printf "%d", ms }' \
    "$work/times")
}

# Prints how long a command took, and adds its processor time to `spent`: timed "what" COMMAND…
spent=0
timed() {
  local what=$1 started=${EPOCHREALTIME/./} us ms before
  processor_ms
  before=$ms
  shift
  quietly "$@" || die "$what: failed: $*"
  us=$((${EPOCHREALTIME/./} - started))
  processor_ms
  ms=$((ms - before))
  spent=$((spent + ms))
  printf '%-58s %3d.%d s, %3d.%d s of a processor\n' "$what" $((us / 1000000)) $((us / 100000 % 10)) \
    $((ms / 1000)) $((ms / 100 % 10))
}

# Fails if the commands of `timed` since `spent` was set to 0 took more than a minute of processor time,
# which other work of the computer does not prolong much: expect_a_minute WAY.
expect_a_minute() {
  expect "at most 60 000 ms of processor time from $1 to the quickstart's output" "$spent" -le 60000
}

# Makes a virtual environment with pip: environment FOLDER.
environment() { make_environment "$1" || die "make a virtual environment, then run this again: $advice"; }

# Makes a user's project in a folder whose name has a space, and prints it.
user_project() {
  local folder="$work/$1 project"
  rm -rf "$folder"
  mkdir -p "$folder"
  cp "$root"/tests/ways/user/CMakeLists.txt "$root/examples/quickstart/quickstart.cpp" \
    "$root/tests/consumer_install/overlap.cpp" "$folder"
  printf '%s\n' "$folder"
}

# Configures, builds and runs the quickstart: use_by_cmake PROJECT [CMake option…].
use_by_cmake() {
  local project=$1
  shift
  rm -rf "$project/build"
  cmake -G Ninja -S "$project" -B "$project/build" -D CMAKE_BUILD_TYPE=Release "$@" &&
    cmake --build "$project/build" &&
    "$project/build/quickstart"
}

# Prints the first block of a language under a heading of a page: block PAGE HEADING LANGUAGE.
block() {
  awk -v heading="## $2" -v fence="\`\`\`$3" '
    /^## / { here = $0 == heading }
    inside && /^```/ { exit }
    inside { print }
    here && $0 == fence { inside = 1 }' "$root/$1"
}

# Checks the pages of an installation, and that its tools say where they are: expect_pages FOLDER OVERLAP, where OVERLAP
# is its msstream-overlap.
expect_pages() {
  local folder=$1 overlap=$2 page
  for page in README.md CHANGELOG.md docs/install.md docs/overlap.md docs/doctor.md docs/pictures/scaling.svg; do
    expect "the page $page in $folder" -f "$folder/$page"
  done
  expect "no programs of the site in $folder" ! -e "$folder/docs/site"
  page=$("$overlap" --explain launch-bound | sed -n 's/^ *more: \(.*\)#launch-bound$/\1/p')
  expect "msstream-overlap says where its page is" "$page" -ef "$folder/docs/overlap.md"
}

# Copies the example of an installation, and prints where: installed_example FOLDER.
installed_example() {
  rm -rf "$work/installed example"
  cp -r "$1/examples/quickstart" "$work/installed example"
  printf '%s\n' "$work/installed example"
}

# Checks the pages of an installation, builds its example and runs it: expect_documents FOLDER OVERLAP [CMake option…].
expect_documents() {
  local example
  expect_pages "$1" "$2"
  example=$(installed_example "$1")
  shift 2
  timed "the installed example" use_by_cmake "$example" "$@"
}

# Compiles and runs the quickstart with one command: use_by_pkg_config PROJECT COMPILER.
use_by_pkg_config() {
  local flags
  flags=$(pkg-config --cflags --libs msstream) &&
    eval "$2 -O2 \"\$1/quickstart.cpp\" -o \"\$1/by_pkg_config\" $flags" &&
    "$1/by_pkg_config"
}

# Configures, builds and runs the quickstart by Meson: use_by_meson PROJECT.
use_by_meson() {
  cp "$root/tests/ways/meson/meson.build" "$1"
  cp "$1/quickstart.cpp" "$1/trainer.cpp"
  rm -rf "$1/by_meson"
  meson setup --buildtype release "$1/by_meson" "$1" && meson compile -C "$1/by_meson" && "$1/by_meson/trainer"
}

archive() {
  local one=$work/release two="$work/release again" clone="$work/another clone" sources="$work/read only"
  local written
  rm -rf "$one" "$two" "$clone"
  [ ! -d "$sources" ] || chmod -R u+w "$sources"
  rm -rf "$sources"
  "$root/scripts/release.sh" "$one" >"$work/archive"
  git clone --quiet "$root" "$clone"
  (umask 077 && TZ=Asia/Tokyo LC_ALL=C "$clone/scripts/release.sh" "$two" >/dev/null)
  diff -r "$one" "$two" || die "scripts/release.sh gave different bytes in two clones"
  (cd "$one" && sha256sum --quiet --check ./*.sha256)

  environment "$work/environment"
  if quietly "$work/environment/bin/pip" install spdx-tools; then
    timed "bill of materials checked by spdx-tools" "$work/environment/bin/pyspdxtools" \
      -i "$one/$release.spdx.json"
  else
    say "the bill of materials is not checked: spdx-tools cannot be installed from PyPI"
  fi

  # A build of sources that cannot be written, by a user who is not root, and who may not write a cache of the
  # compiler either.
  mkdir -p "$sources"
  tar -xzf "$one/$release.tar.gz" -C "$sources"
  expect "the version of the archive from its sources" "msstream-$("$sources/$release/scripts/version.sh")" = "$release"
  chmod -R a-w "$sources"
  local user=()
  rm -rf "$work/of read only" && mkdir "$work/of read only"
  if [ "$(id -u)" = 0 ]; then
    user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    chmod a+rwx "$work/of read only"
    if ! "${user[@]}" test -r "$sources/$release/CMakeLists.txt"; then
      say "root builds the sources, and may write to them: another user cannot read $sources"
      user=()
    fi
  fi
  touch "$work/before the build"
  timed "read-only sources: configured" "${user[@]}" cmake -G Ninja -S "$sources/$release" \
    -B "$work/of read only" -D CMAKE_CXX_COMPILER_LAUNCHER= -D MSSTREAM_BUILD_EXAMPLES=OFF -D MSSTREAM_BUILD_TESTS=OFF -D MSSTREAM_UNITY_BUILD=OFF
  timed "read-only sources: a file compiled" "${user[@]}" cmake --build "$work/of read only" \
    --target src/CMakeFiles/msstream_common.dir/base/shape.cpp.o
  written=$(find "$sources" -newer "$work/before the build" -print -quit)
  expect "no file written into the sources" -z "$written"
}

sources() {
  local folder="$work/release of the sources" project="$work/fetch content" cpm="$work/cpm" hash archive
  rm -rf "$folder" "$project" "$cpm"
  archive=$("$root/scripts/release.sh" "$folder")
  hash=$(cut -d ' ' -f 1 "$archive.sha256")
  cp -r "$root/tests/ways/fetch_content" "$project"
  cp -r "$root/tests/ways/cpm" "$cpm"
  # The library's files are joined, as in its own builds: a project of a user would wait longer.
  timed "FetchContent, parent with its own fmt: configured" cmake -G Ninja -S "$project" -B "$project/build" \
    -D CMAKE_BUILD_TYPE=Release -D CMAKE_UNITY_BUILD_BATCH_SIZE=0 \
    -D ARCHIVE="$archive" -D HASH="$hash" \
    -D QUICKSTART="$project/build/_deps/msstream-src/examples/quickstart/quickstart.cpp"
  timed "FetchContent: library and quickstart built" cmake --build "$project/build" --target quickstart
  timed "FetchContent: quickstart run" "$project/build/quickstart"
  if quietly cmake -G Ninja -S "$cpm" -B "$cpm/wrong" -D ARCHIVE="$archive" -D HASH="$(printf '%064d' 0)" 2>/dev/null; then
    die "expected: an archive with another hash is refused"
  fi
  timed "stand-in for CPM: configured" cmake -G Ninja -S "$cpm" -B "$cpm/build" -D CMAKE_BUILD_TYPE=Release \
    -D CMAKE_UNITY_BUILD_BATCH_SIZE=0 -D ARCHIVE="$archive" -D HASH="$hash"
  timed "stand-in for CPM: library and quickstart built" cmake --build "$cpm/build" --target quickstart
  timed "stand-in for CPM: quickstart run" "$cpm/build/quickstart"
}

# Builds what the ways deb and prefix share.
library() {
  [ -z "${library_is_built:-}" ] || return 0
  rm -rf "$root/build/deb"
  timed "library and Debian packages built from nothing" "$root/scripts/deb.sh"
  library_is_built=1
}

prefix() {
  local first="$work/first prefix" moved="$work/moved prefix" project components=(host overlap) folder
  library
  # The packages' prefix is /usr, and a user's is not, which says where the libraries go.
  quietly cmake -U CMAKE_INSTALL_LIBDIR -D CMAKE_INSTALL_PREFIX=/usr/local "$root/build/deb"
  project=$(user_project prefix)
  rm -rf "$first" "$moved" "$work/stage"
  timed "cmake --install" cmake --install "$root/build/deb" --prefix "$first"
  mv "$first" "$moved"
  timed "find_package in a moved prefix: quickstart" use_by_cmake "$project" -D CMAKE_PREFIX_PATH="$moved"
  quietly use_by_cmake "$project" -D CMAKE_PREFIX_PATH="$moved" -D WITH_OVERLAP=ON -D AS_SHARED_LIBRARY=ON
  quietly "$project/build/overlap"
  timed "find_package in a parent with its own fmt: quickstart" use_by_cmake "$project" -D CMAKE_PREFIX_PATH="$moved" \
    -D OWN_FMT=ON
  expect "no path of the first prefix in the installed files" -z "$(grep -rlF "$first" "$moved" || true)"
  expect "no path of the sources in the package files" -z \
    "$(grep -rlF "$root" "$moved"/{lib/cmake,lib/pkgconfig,include} || true)"
  diff -r "$root/packaging/notices" "$moved/share/doc/msstream/notices" >&2 || die "expected the notices in the prefix"

  [ ! -e "$(find "$moved" -name libmsstream_mpi.a)" ] || components+=(mpi)
  timed "find_package: versions and components" cmake -G Ninja -S "$root/tests/ways/components" \
    -B "$work/components" --fresh -D CMAKE_PREFIX_PATH="$moved" \
    -D EXPECTED_COMPONENTS="$(IFS=';' && printf '%s' "${components[*]}")"

  folder=$moved/$(sed -n 's|.*PKG_CONFIG_PATH=~/msstream-0\.1/\([a-z0-9_/-]*\).*|\1|p' "$root/docs/install.md")
  expect "msstream.pc in the folder of docs/install.md" -f "$folder/msstream.pc"
  export PKG_CONFIG_PATH=$folder
  timed "g++ and pkg-config in a moved prefix: quickstart" use_by_pkg_config "$project" g++
  expect "the version of the project from pkg-config" "$(pkg-config --modversion msstream)" = "$version"
  quietly eval "g++ \"\$project/overlap.cpp\" -o \"\$project/overlap\" $(pkg-config --cflags --libs msstream-overlap)"
  quietly "$project/overlap"
  install_missing "${compilers[@]}" meson || die "install what is missing, then run this again: $advice"
  timed "Meson by pkg-config: quickstart" use_by_meson "$project"
  timed "clang 14 and pkg-config: quickstart" use_by_pkg_config "$project" \
    "clang++-14 -include msstream/base/detail/source_location_of_clang_14.hpp"
  unset PKG_CONFIG_PATH
  expect_documents "$moved/share/doc/msstream" "$moved/bin/msstream-overlap" -D CMAKE_PREFIX_PATH="$moved"

  # FetchContent with FIND_PACKAGE_ARGS downloads nothing: there is no such archive.
  rm -rf "$work/fetch installed"
  cp -r "$root/tests/ways/fetch_content" "$work/fetch installed"
  timed "FetchContent finds the installed library: quickstart" use_by_cmake "$work/fetch installed" \
    -D CMAKE_PREFIX_PATH="$moved" -D FIND_PACKAGE=ON -D ARCHIVE=/none -D HASH="$(printf '%064d' 0)" \
    -D QUICKSTART="$project/quickstart.cpp"

  local compiler
  for compiler in "${compilers[@]/clang/clang++}"; do
    timed "find_package with $compiler: quickstart" use_by_cmake "$project" -D CMAKE_PREFIX_PATH="$moved" \
      -D CMAKE_CXX_COMPILER="$compiler"
  done

  DESTDIR=$work/stage quietly cmake --install "$root/build/deb" --prefix /opt/msstream
  expect "DESTDIR holds the prefix" -f "$work/stage/opt/msstream/include/msstream/msstream.hpp"
  touch "$work/stage/opt/msstream/include/of_another_project.hpp"
  DESTDIR=$work/stage quietly cmake --build "$root/build/deb" --target uninstall
  expect "uninstall leaves the file of another project, and nothing else" \
    "$(find "$work/stage" -type f)" = "$work/stage/opt/msstream/include/of_another_project.hpp"
  expect "uninstall removes the folders of msstream" -z "$(find "$work/stage" -path '*/msstream/*' -name 'msstream*')"
}

# Prints the value of a field of a program or shared library: dynamic_field FIELD FILE.
dynamic_field() { objdump -p "$2" | awk -v field="$1" '$1 == field { print $2 }'; }

# Prints the version in the SONAME of the shared libraries.
soversion() { [[ $version == 0.* ]] && printf '%s' "${version%.*}" || printf '%s' "${version%%.*}"; }

# Removes the Debian packages, whatever happens.
remove_packages() {
  local package
  for package in msstream-tools libmsstream-dev "libmsstream$(soversion)"; do
    dpkg --purge "$package" >/dev/null 2>&1 || true
  done
}

# Installs the Debian packages of shared libraries, or extracts them, and runs the quickstart with them:
# expect_shared_packages PACKAGE….
expect_shared_packages() {
  local project package
  install_missing lintian || die "install what is missing, then run this again: $advice"
  timed "lintian" lintian --no-tag-display-limit --fail-on error,warning "$@"
  project=$(user_project "shared deb")
  if [ "$(id -u)" != 0 ] || dpkg-query -W libmsstream-dev >/dev/null 2>&1; then
    say "the packages are extracted and not installed: that needs root, and none of them installed before"
    rm -rf "$work/extracted"
    for package in "$@"; do dpkg-deb -x "$package" "$work/extracted"; done
    timed "extracted packages: quickstart" use_by_cmake "$project" -D CMAKE_PREFIX_PATH="$work/extracted/usr"
    return
  fi
  trap remove_packages EXIT
  timed "apt-get install of the packages" apt-get install -y --no-install-recommends "$@"
  timed "packages installed: quickstart by find_package" use_by_cmake "$project"
  timed "packages installed: quickstart by pkg-config" use_by_pkg_config "$project" g++
  # The scripts that CPack adds for the loader's cache stay until the package is purged.
  timed "remove" apt-get purge -y libmsstream-dev "libmsstream$(soversion)"
  expect "no shared library left" -z "$(find /usr/lib -name 'libmsstream*')"
  trap - EXIT
}

shared() {
  local first="$work/first shared" moved="$work/moved shared" soversion project folder library package packages
  soversion=$(soversion)
  rm -rf "$root/build/deb" "$first" "$moved"
  library_is_built=
  timed "shared libraries and Debian packages built from nothing" "$root/scripts/deb.sh" -D BUILD_SHARED_LIBS=ON
  packages=("$root"/build/deb/*.deb)
  expect "a package of libraries and one of headers" "$(for package in "${packages[@]}"; do
    dpkg-deb -f "$package" Package
  done | LC_ALL=C sort | tr '\n' ' ')" = "libmsstream-dev libmsstream$soversion "
  expect_shared_packages "${packages[@]}"
  # A folder that may be moved, unlike that of the system.
  quietly cmake -U CMAKE_INSTALL_RPATH "$root/build/deb"
  timed "shared libraries linked for another folder" cmake --build "$root/build/deb"
  timed "cmake --install" cmake --install "$root/build/deb" --prefix "$first"
  mv "$first" "$moved"
  folder=$(dirname "$(find "$moved" -name libmsstream.so)")
  for library in msstream msstream_overlap; do
    expect "the SONAME of lib$library.so" \
      "$(dynamic_field SONAME "$folder/lib$library.so")" = "lib$library.so.$soversion"
    expect "a file lib$library.so.$version" -f "$folder/lib$library.so.$version"
    expect "no lib$library.a beside it" ! -e "$folder/lib$library.a"
  done

  project=$(user_project shared)
  timed "find_package of the shared library: quickstart" use_by_cmake "$project" -D CMAKE_PREFIX_PATH="$moved"
  expect "the quickstart loads the shared library" \
    -n "$(dynamic_field NEEDED "$project/build/quickstart" | grep -Fx "libmsstream.so.$soversion")"
  quietly use_by_cmake "$project" -D CMAKE_PREFIX_PATH="$moved" -D WITH_OVERLAP=ON -D AS_SHARED_LIBRARY=ON
  quietly "$project/build/overlap"
  PKG_CONFIG_PATH=$folder/pkgconfig LD_LIBRARY_PATH=$folder timed "shared library by pkg-config: quickstart" \
    use_by_pkg_config "$project" g++
  expect "the quickstart by pkg-config loads the shared library" \
    -n "$(dynamic_field NEEDED "$project/by_pkg_config" | grep -Fx "libmsstream.so.$soversion")"
}

deb() {
  local packages project flags package
  library
  install_missing lintian || die "install what is missing, then run this again: $advice"
  packages=("$root"/build/deb/*.deb)
  expect "two packages" "${#packages[@]}" = 2
  timed "lintian" lintian --no-tag-display-limit --fail-on error,warning "${packages[@]}"
  for package in "${packages[@]}"; do
    expect "the version in $package" "$(dpkg-deb -f "$package" Version)" = "$debian_version-1"
    expect "the variant with CUDA replaced by $package" \
      "$(dpkg-deb -f "$package" Conflicts Replaces | sort -u | grep -c 'msstream-cuda')" = 2
    dpkg-deb --fsys-tarfile "$package" | tar -t >"$work/files"
    expect "no library of MPI, and no recorder, in $package" -z "$(grep -E 'msstream_mpi|overlap_record' "$work/files")"
    expect "nothing but its own documents in $package" -z "$(grep 'share/doc/msstream/' "$work/files")"
  done
  # Archives and packages are made again, in another time zone, language and umask.
  rm -rf "$work/same packages"
  mkdir "$work/same packages"
  cp "${packages[@]}" "$work/same packages"
  find "$root/build/deb" -name '*.a' -delete
  (umask 077 && TZ=Asia/Tokyo LC_ALL=C timed "Debian packages made again" "$root/scripts/deb.sh")
  for package in "${packages[@]}"; do
    cmp "$package" "$work/same packages/${package##*/}" || die "scripts/deb.sh gave different bytes in two runs"
  done
  install_missing "${compilers[0]}" || die "install what is missing, then run this again: $advice"
  quietly cmake -G Ninja -S "$root" -B "$work/deb by clang" -D CMAKE_CXX_COMPILER="${compilers[0]/clang/clang++}" \
    -D MSSTREAM_BUILD_TESTS=OFF -D MSSTREAM_BUILD_EXAMPLES=OFF
  quietly dpkg-query -W "$(grep -oE 'libstdc\+\+-[0-9]+-dev' "$work/deb by clang/CPackConfig.cmake")" ||
    die "a package that clang builds depends on another C++ library than that of this machine"
  project=$(user_project deb)
  if [ "$(id -u)" != 0 ] || dpkg-query -W libmsstream-dev >/dev/null 2>&1; then
    say "the packages are extracted and not installed: that needs root, and none of them installed before"
    rm -rf "$work/extracted"
    for package in "${packages[@]}"; do dpkg-deb -x "$package" "$work/extracted"; done
    timed "extracted packages: quickstart" use_by_cmake "$project" -D CMAKE_PREFIX_PATH="$work/extracted/usr"
    expect_documents "$work/extracted/usr/share/doc/libmsstream-dev" "$work/extracted/usr/bin/msstream-overlap" \
      -D CMAKE_PREFIX_PATH="$work/extracted/usr"
    return
  fi
  trap remove_packages EXIT
  spent=0
  timed "apt-get install of the packages" apt-get install -y --no-install-recommends "${packages[@]}"
  timed "packages installed: quickstart by find_package" use_by_cmake "$project"
  expect_a_minute "Debian packages"
  timed "packages installed: quickstart by pkg-config" use_by_pkg_config "$project" g++
  quietly msstream-overlap --help
  quietly msstream-memory --help
  quietly msstream-doctor --quick
  expect_documents /usr/share/doc/libmsstream-dev /usr/bin/msstream-overlap
  local tool option options
  for tool in msstream-overlap msstream-memory msstream-doctor; do
    expect "$tool --version" "$($tool --version)" = "$tool $version"
  done
  for tool in "msstream-overlap" "msstream-overlap run" "msstream-memory" "msstream-doctor"; do
    options=$($tool --help | grep -oE '^ +(-h, ?)?--[a-z-]+' | grep -oE -- '--[a-z-]+' || true)
    expect "options in the output of $tool --help" -n "$options"
    for option in $options; do
      expect "the manual page of ${tool%% *} has $option" -n "$(zcat "/usr/share/man/man1/${tool%% *}.1.gz" |
        sed 's/\\-/-/g' | grep -F -- "$option" || true)"
    done
  done
  # The next release of the packages, with the same content.
  mkdir -p "$work/next"
  (cd "$root/build/deb" && quietly cpack -G DEB -D CPACK_DEBIAN_PACKAGE_RELEASE=2 -B "$work/next")
  timed "upgrade" dpkg -i "$work"/next/*.deb
  expect "the next release installed" "$(dpkg-query -W -f '${Version}' libmsstream-dev)" = "$debian_version-2"
  quietly "$project/build/quickstart"
  dpkg -L libmsstream-dev msstream-tools | sort -u | grep -i msstream >"$work/installed"
  # Removed without --purge: the packages have no settings that would stay.
  timed "remove" apt-get remove -y msstream-tools libmsstream-dev
  trap - EXIT
  for package in msstream-tools libmsstream-dev; do
    expect "dpkg has forgotten $package" -z "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -v not-installed)"
  done
  while read -r package; do
    expect "nothing left of the packages" ! -e "$package"
  done <"$work/installed"
}

recipes() {
  local name wrong
  quietly cmake -D FOLDER="$work/port" -P "$root/tests/ways/vcpkg/run_port.cmake" ||
    die "the port of vcpkg does not run with stand-ins for the functions of vcpkg"
  python3 -c "import ast, sys; [ast.parse(open(file).read()) for file in sys.argv[1:]]" \
    "$root"/packaging/{spack/packages/msstream/package.py,conan/conanfile.py,conan/test_package/conanfile.py}
  expect "the version of the project in the port of vcpkg" "$version" = \
    "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["version"])' "$root/packaging/vcpkg/msstream/vcpkg.json")"
  expect "the version of the project in the package of Spack" "$version" = \
    "$(sed -n 's/^    version("\(.*\)")$/\1/p' "$root/packaging/spack/packages/msstream/package.py")"
  expect "the version of the project in the first heading of CHANGELOG.md" "$version" = \
    "$(grep -m 1 '^## ' "$root/CHANGELOG.md" | sed -E 's/^## (Unreleased \((.*)\)|(.*) \([-0-9]+\))$/\2\3/')"
  # Projects ask for the minor version. One line of docs/install.md is about another.
  wrong=$(grep -rnE '(find_package\(msstream|FIND_PACKAGE_ARGS) [0-9]' \
    "$root"/{README.md,docs,examples,packaging,tests} --include={CMakeLists.txt,'*.md','*.py',usage} |
    grep -vE "(find_package\(msstream|FIND_PACKAGE_ARGS) ${version%.*}[ )]|does not accept" || true)
  expect "find_package(msstream ${version%.*} in all projects and pages, not: $wrong" -z "$wrong"
  # What other libraries the archives contain, compiled, is named by the bill of materials and has a notice.
  for name in $(sed -n 's/^    ("\([^"]*\)", .*"BUILD_DEPENDENCY_OF".*/\1/p' "$root/scripts/write_spdx.py") fmt CLI11; do
    expect "a notice of $name" -f "$root/packaging/notices/$name.txt"
    expect "$name in the Debian packages' file copyright" -n "$(grep -F "($name)" "$root/packaging/deb/copyright")"
  done
}

ways=(archive prefix deb recipes wheel conan)
chosen=()
for argument in "$@"; do
  case $argument in
    --help | -h) usage && exit ;;
    archive | sources | prefix | shared | deb | recipes | wheel | pip | conan | cuda | wheel-cuda | deb-cuda)
      chosen+=("$argument")
      ;;
    *) die "no way $argument, only: ${ways[*]} sources shared pip cuda wheel-cuda deb-cuda" ;;
  esac
done
[ "${#chosen[@]}" != 0 ] || chosen=("${ways[@]}")
install_missing "${build_packages[@]}" pkgconf || die "install what is missing, then run this again: $advice"
mkdir -p "$work"
for way in "${chosen[@]}"; do
  say "$way"
  "$way"
done
