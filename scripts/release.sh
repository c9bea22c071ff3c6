#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes the files of a release; see scripts/release.sh --help.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'END_OF_USAGE'
scripts/release.sh [--commit COMMIT] [FOLDER]

Writes the sources of a commit, HEAD unless another is named, to FOLDER (default: build/release):

  msstream-VERSION.tar.gz         the sources; equal commits give equal bytes
  msstream-VERSION.tar.gz.sha256  its checksum, for sha256sum --check
  msstream-VERSION.spdx.json      its bill of materials, in SPDX 2.3

VERSION is what `scripts/version.sh --commit COMMIT` prints: a release such as 0.1.0 only if the commit has the tag
v0.1.0 and a dated heading in CHANGELOG.md, otherwise a development version with the time and the hash of the commit.
The file VERSION of the archive tells it to whoever builds the sources. Changes that are not committed are left out.
END_OF_USAGE
}

commit=HEAD folder=
while [ "$#" != 0 ]; do
  case $1 in
    --help | -h) usage && exit ;;
    --commit)
      take_commit "$@"
      shift
      ;;
    -*) die "no option $1; scripts/release.sh --help lists the options" ;;
    *)
      [ -z "$folder" ] || die "expected one folder, found $folder and $1"
      folder=$1
      ;;
  esac
  shift
done
folder=${folder:-$root/build/release}

# The settings of the user and of the clone, which could change the bytes, are left out.
git=(git -C "$root" -c tar.umask=0022 -c core.autocrlf=false -c core.eol=lf -c core.attributesFile=/dev/null)
name=$(hash_of "$commit")
version=$("$root/scripts/version.sh" --commit "$name")
if [ "$commit" = HEAD ] && [ -n "$("${git[@]}" status --porcelain)" ]; then
  say "changes that are not committed are left out"
fi

# Files appear under their names when they are complete.
release=msstream-$version
mkdir -p "$folder"
work=$(mktemp -d "$folder/.release-XXXXXX")
trap 'rm -rf "$work"' EXIT
printf '%s %s %s\n' "$version" "$("$root/scripts/version.sh" --commit "$name" --debian)" \
  "$("$root/scripts/version.sh" --commit "$name" --time)" >"$work/VERSION"
chmod 644 "$work/VERSION"
# git takes the time of each file from the commit, and gzip -n leaves out that of the archive.
"${git[@]}" archive --format=tar --prefix="$release/" --add-file="$work/VERSION" "$name" >"$work/tar"
gzip -9n <"$work/tar" >"$work/$release.tar.gz"
(cd "$work" && sha256sum "$release.tar.gz" >"$release.tar.gz.sha256")
"$root/scripts/write_spdx.py" "$work/$release.tar.gz" --version "$version" \
  --created "$(TZ=UTC0 "${git[@]}" show -s --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ "$name")" \
  --output "$work/$release.spdx.json"
chmod 644 "$work/$release"*
mv "$work/$release"* "$folder/"
printf '%s\n' "$folder/$release.tar.gz"
