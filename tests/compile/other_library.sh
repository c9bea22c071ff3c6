#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Links a small program with the file of the library that has its version: it links if headers and library
# are the same, and does not if they differ in their version or in MSSTREAM_CUDA.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
root=$PWD/../..
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
compile=("${CXX:-g++}" -std=c++20)

fail() {
  echo "other_library: $*" >&2
  exit 1
}

# Headers of a later version, of which only the last number differs.
cp -r "$root/include" later
sed -i 's/^\(#define MSSTREAM_VERSION_PATCH\) .*/\1 999/' later/msstream/base/version.hpp

# The header is one of those that need the guard alone.
cat >program.cpp <<'END'
#include <msstream/ops/choices.hpp>
#include <msstream/base/version.hpp>
int main() { return msstream::version() == MSSTREAM_VERSION_STRING ? 0 : 1; }
END
version=$(sed -n 's/^#define MSSTREAM_VERSION_\(MAJOR\|MINOR\|PATCH\) \([0-9]*\)$/\2/p' \
  "$root/include/msstream/base/version.hpp" | paste -sd _)
"${compile[@]}" -DMSSTREAM_CUDA=0 -fPIC -I"$root/include" -c "$root/src/base/version.cpp" -o library.o
"${compile[@]}" -DMSSTREAM_CUDA=0 -I"$root/include" -c program.cpp -o same.o
"${compile[@]}" -DMSSTREAM_CUDA=1 -I"$root/include" -c program.cpp -o cuda.o
"${compile[@]}" -DMSSTREAM_CUDA=0 -Ilater -c program.cpp -o later.o

"${compile[@]}" same.o library.o -o program || fail "headers and library are the same, and the program does not link"
./program || fail "version() differs from MSSTREAM_VERSION_STRING"

# Checks that a program does not link, and that the linker names a symbol: refuse OBJECT SYMBOL [option…].
refuse() {
  local object=$1 symbol=$2
  shift 2
  if "${compile[@]}" "$object" library.o "$@" -o refused 2>errors; then
    fail "$object links with a library of version $version for the host"
  fi
  grep -qw "$symbol" errors || fail "expected $symbol in the linker's message, found: $(cat errors)"
}

refuse later.o "msstream_${version%_*}_999_host"
refuse cuda.o "msstream_${version}_cuda"
refuse later.o "msstream_${version%_*}_999_host" -Wl,--gc-sections
# One file of two has other headers.
sed 's/main/other/' program.cpp >other.cpp
"${compile[@]}" -DMSSTREAM_CUDA=0 -Ilater -c other.cpp -o other.o
refuse same.o "msstream_${version%_*}_999_host" other.o

# The guard is data alone: it adds no code.
printf '#include <msstream/ops/choices.hpp>\n' >empty.cpp
"${compile[@]}" -O2 -DMSSTREAM_CUDA=0 -I"$root/include" -c empty.cpp -o empty.o
[ -z "$(nm empty.o | grep -i ' t ' || true)" ] || fail "the guard adds code: $(nm empty.o)"

# The loader compares a shared library in the same way.
"${compile[@]}" -shared library.o -o libsame.so
"${compile[@]}" -DMSSTREAM_CUDA=0 -fPIC -Ilater -c "$root/src/base/version.cpp" -o later_library.o
mkdir newer
"${compile[@]}" -shared later_library.o -o newer/libsame.so
"${compile[@]}" same.o -L. -lsame -o shared
LD_LIBRARY_PATH=. ./shared || fail "the program does not run with the shared library that it was linked with"
if LD_LIBRARY_PATH=newer ./shared 2>errors; then
  fail "a program runs with a shared library of a later version"
fi
grep -qw "msstream_${version}_host" errors || fail "expected msstream_${version}_host from the loader, found: $(cat errors)"
echo "other_library: programs link only with the library of their headers"
