#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the version of a commit; see scripts/version.sh --help.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'END_OF_USAGE'
scripts/version.sh [--commit COMMIT] [--debian | --time]

Prints the version by which archives, wheels and Debian packages of these sources are called. A commit with the tag
vVERSION, and with a heading such as `## 0.1.0 (2026-12-31)` in CHANGELOG.md, is the release VERSION, which is that of
project(msstream VERSION …). Any other commit is a development version, with the time and the hash of the commit:

  0.1.0.dev20261231235959+g0123abcd   for Python and archives: before 0.1.0
  0.1.0~git20261231235959.0123abcd    with --debian: before 0.1.0

Changes that are not committed make it a development version that ends in `.changed`. With COMMIT they do not count.
Sources without git have the version that their file VERSION names, which scripts/release.sh puts into archives. Without
that file, they have the version 0.1.0.dev0, or 0.1.0~dev0 with --debian.

--time prints the seconds since 1970 at which the commit was made, for SOURCE_DATE_EPOCH; nothing if it is unknown.
END_OF_USAGE
}

commit='' kind=python
while [ "$#" != 0 ]; do
  case $1 in
    --help | -h) usage && exit ;;
    --commit)
      take_commit "$@"
      shift
      ;;
    --debian) kind=debian ;;
    --time) kind='time' ;;
    *) die "no option $1; scripts/version.sh --help lists the options" ;;
  esac
  shift
done

# Sources that lie in a folder of another project's clone have no git of their own.
declare -A answer
git=(git -C "$root")
if [ "$("${git[@]}" rev-parse --show-prefix 2>/dev/null || printf none)" != "" ]; then
  [ -z "$commit" ] || die "expected a commit of a git clone of msstream in $root, found $commit"
  version=$(sed -n 's/^project(msstream VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
  answer=([python]=$version.dev0 [debian]=$version~dev0 [time]="")
  if [ -f "$root/VERSION" ]; then
    read -r "answer[python]" "answer[debian]" "answer[time]" <"$root/VERSION"
  fi
  printf '%s\n' "${answer[$kind]}"
  exit
fi

name=$(hash_of "${commit:-HEAD}")
changed=
if [ -z "$commit" ] && [ -n "$("${git[@]}" status --porcelain)" ]; then
  changed=.changed
  version=$(<"$root/CMakeLists.txt")
else
  version=$("${git[@]}" show "$name:CMakeLists.txt")
fi
version=$(sed -n 's/^project(msstream VERSION \([0-9.]*\).*/\1/p' <<<"$version")
[ -n "$version" ] || die "CMakeLists.txt of $name has no line project(msstream VERSION …)"
seconds=$("${git[@]}" show -s --format=%ct "$name")
tags=$("${git[@]}" tag --points-at "$name")
changelog=$("${git[@]}" show "$name:CHANGELOG.md")
if [ -n "$changed" ] || ! grep -qxF "v$version" <<<"$tags"; then
  moment=$(TZ=UTC0 printf '%(%Y%m%d%H%M%S)T' "$seconds")
  answer[python]=$version.dev$moment+g${name:0:8}$changed
  answer[debian]=$version~git$moment.${name:0:8}$changed
elif grep -qE "^## ${version//./\\.} \([0-9]{4}-[0-9]{2}-[0-9]{2}\)\$" <<<"$changelog"; then
  answer[python]=$version answer[debian]=$version
else
  die "the commit has the tag v$version, and its CHANGELOG.md has no heading such as: ## $version (2026-12-31)"
fi
answer[time]=$seconds
printf '%s\n' "${answer[$kind]}"
