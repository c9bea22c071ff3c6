#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the documentation as a site that is read from a folder; see scripts/site.sh --help.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# The most public members without a docstring, which api.py lists in build/site-pages/api/undocumented.txt.
most_undocumented=0

usage() {
  cat <<'END'
scripts/site.sh [--install | --pages | --debian | --check]

Builds the documentation into build/site, and prints the address of its first page. The site needs no network and no
server: open build/site/index.html. It has the pages of docs/, a reference from the comments in the public headers, and
the sources to which pages link.

Installs the Debian packages doxygen, aspell and python3-venv, and the tools of docs/site/requirements.txt from PyPI into
build/site-tools. Once they are there, it needs no network.

  --install  only installs them
  --pages    makes the pages and the reference in build/site-pages, and checks their links and the docstrings, but builds
             no site of them: needs doxygen, and nothing from PyPI
  --debian   as --pages, and builds the pages of docs/ by Debian's Sphinx into build/site-debian, as a check for CI, where
             nothing is fetched from PyPI: 20 s of a processor. All 400 pages, with those of the reference and of sources,
             would take 110 s
  --check    also checks the spelling, all links, and the pages in headless Chromium, which is left out without the
             package chromium
END
}

check='' only_install='' only_pages='' by_debian=''
for argument in "$@"; do
  case $argument in
    --help | -h) usage && exit ;;
    --check) check=1 ;;
    --install) only_install=1 ;;
    --pages) only_pages=1 ;;
    --debian) only_pages=1 by_debian=1 ;;
    *) die "no argument $argument; see scripts/site.sh --help" ;;
  esac
done

pages=$root/build/site-pages site=$root/build/site
make_pages() {
  rm -rf "$pages"  # a page that is gone must not stay
  python3 -B "$root/docs/site/stage.py" "$pages"
  python3 -B "$root/docs/site/api.py" "$pages/api" --most-undocumented "$most_undocumented"
}

if [ -n "$only_pages" ]; then
  install_missing doxygen || die "install what is missing, then run this again: $advice"
  make_pages
  python3 -B "$root/docs/site/check_pages.py" "$pages"
  [ -n "$by_debian" ] || exit 0
  install_missing python3-sphinx python3-myst-parser furo || die "install what is missing, then run this again: $advice"
  # check_pages.py has checked the links, also those to pages that are left out.
  rm -rf "$site-debian"
  PYTHONNOUSERSITE=1 /usr/bin/python3 -m sphinx -q -j "$(nproc)" -W --keep-going -b html -c "$root/docs/site" \
    -D extensions=myst_parser -D "exclude_patterns=api/**,files/**" \
    -D suppress_warnings=myst.header,ref.myst,toc.excluded -d "$pages/.doctrees" "$pages" "$site-debian"
  say "$(find "$site-debian" -name '*.html' | wc -l) pages of the site are built"
  exit 0
fi

install_missing doxygen aspell aspell-en python3-venv || die "install what is missing, then run this again: $advice"
tools=$root/build/site-tools
if ! cmp --quiet "$root/docs/site/requirements.txt" "$tools/installed.txt"; then
  say "installing the tools of docs/site/requirements.txt into build/site-tools"
  quietly python3 -m venv --clear "$tools" 
  quietly "$tools/bin/python" -m pip install --requirement "$root/docs/site/requirements.txt"
  cp "$root/docs/site/requirements.txt" "$tools/installed.txt"
fi

[ -z "$only_install" ] || exit 0

rm -rf "$site"
make_pages
"$tools/bin/sphinx-build" --quiet --jobs "$(nproc)" --fail-on-warning --keep-going \
  -b html -c "$root/docs/site" -d "$pages/.doctrees" "$pages" "$site"
rm -f "$site/.buildinfo"
say "the site is file://$site/index.html"

[ -n "$check" ] || exit 0
python3 -B "$root/docs/site/check_spelling.py" "$pages"
python3 -B "$root/docs/site/check_links.py" "$site"
python3 -B "$root/tests/site/site_test.py" "$site" || [ $? = 77 ]
