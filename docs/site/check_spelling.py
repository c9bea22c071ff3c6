#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the spelling of the staged pages with aspell: docs/site/check_spelling.py FOLDER [--fix | --pages].

Code, links, acronyms, and names with an underscore, a dot, a digit or a capital letter inside are no words.
docs/site/words.txt has the words that aspell does not know, sorted, a line each, and none that no page uses. With --fix,
the list is written: read what it adds. With --pages, the folder is staged here first, without the reference, so that
words which only the reference uses may be in the list; the status is 77 if aspell or its English is not installed.
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

WORDS = Path(__file__).resolve().parent / "words.txt"
NO_WORDS = re.compile(r"^ *(```+).*?^ *\1 *$|^    .*?$|`+[^`]+`+|<!--.*?-->|\]\([^)]*\)|https?://\S+|[^\s`]*[\w/][._/:]\w[^\s`]*"
                      r"|[^\s`]*\d[^\s`]*|^---$.*?^---$|[\w-]*\\_\S*|^\([\w-]+\)=$", re.MULTILINE | re.DOTALL)


# Acronyms and names of types, which the words of the page may have outside code.
NAMES = re.compile(r".*[a-z][A-Z].*|[A-Z]{2,}('?s)?|k[A-Z].*")


def prose_of(folder):
    for path in sorted(folder.rglob("*.md")):
        if "files" not in path.relative_to(folder).parts:
            text = path.read_text(encoding="utf-8")
            if "api" in path.relative_to(folder).parts:
                text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)  # names of declarations
            yield path.relative_to(folder).as_posix(), NO_WORDS.sub(" ", text)


def key(word):
    return word.lower(), word


def main():
    folder = Path(sys.argv[1])
    only_pages = "--pages" in sys.argv
    if only_pages:
        if not shutil.which("aspell") or b"en_GB" not in subprocess.run(["aspell", "dicts"], capture_output=True).stdout:
            print("SKIPPED: aspell with aspell-en is not installed")
            return 77
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-B", WORDS.parent / "stage.py", folder], check=True)
    known = WORDS.read_text(encoding="utf-8").split("\n")[:-1]
    pages = dict(prose_of(folder))
    command = ["aspell", "list", "--lang=en_GB", "--encoding=utf-8", "--ignore=1"]
    found = subprocess.run(command, input="\n".join(pages.values()), capture_output=True, text=True, check=True)
    unknown = {word for word in found.stdout.split() if not NAMES.fullmatch(word)}
    # A sentence may begin with a word of the list.
    unknown = {word for word in unknown if word == word.lower() or word.lower() not in unknown.union(known)}
    if "--fix" in sys.argv:
        WORDS.write_text("".join(f"{word}\n" for word in sorted(unknown, key=key)), encoding="utf-8")
        return 0
    findings = []
    for word in sorted(unknown - set(known), key=key):
        page = next((name for name, text in pages.items() if re.search(rf"\b{re.escape(word)}\b", text)), "?")
        findings.append(f"{page}: '{word}' is no word of aspell or of docs/site/words.txt")
    unused = [] if only_pages else known
    findings += [f"docs/site/words.txt: no page uses '{word}', or aspell knows it" for word in unused if word not in unknown]
    if unknown - set(known):
        findings.append("Write another word, or add the word to the list, a line each, in the order of the alphabet")
    if known != sorted(known, key=key):
        findings.append("docs/site/words.txt: the words are not sorted")
    print("\n".join(findings) or "spelling: all words are known", file=sys.stderr if findings else sys.stdout)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
