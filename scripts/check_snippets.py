#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the code of the pages is cut from files that are compiled or run: scripts/check_snippets.py [repository root].

A block that begins with "```cpp examples/quickstart/quickstart.cpp" shows consecutive lines of that file, all indented
by the same amount more or less. A line "…" stands for any number of lines that are left out. Every block of C++, CMake,
Python and Meson of every page must name its file, unless scripts/check_ways.sh runs the block as it stands on the page; one of
another page may then name that page. A test or a script of the nightly checks must run the file: one of those in RUNNERS
names it. A shell block may name a file, and is then checked in the same way; without one, its programs must exist and
have the options that they get, as those in code of a line (scripts/snippet_commands.py).

Blocks of text and JSON name a program, a test that has the text, or what else they are from (scripts/snippet_texts.py).

Behind "<!-- cpp examples/teach/from_pytorch.cpp -->", each `code` in the last column of the next table occurs in that
file, apart from spaces; "…" in it stands for any text.

Links of the pages to files, and to headings of pages, lead somewhere. Each picture has a text of several words in its
place, for those who cannot see it.

Also checks the table of CONTRIBUTING.md between "<!-- decisions" and "<!-- end of decisions -->": the file of each row
exists, and has the last part of the row's name.
"""
import re
import sys
from pathlib import Path

from report_findings import report_findings
from snippet_commands import Programs, wrong_commands
from snippet_texts import wrong_texts

# The folders with programs that are compiled.
COMPILED = ("examples/", "tests/")
# The languages of blocks that name their files, and the folders of the files.
FOLDERS = {"cpp": COMPILED, "cmake": (*COMPILED, "packaging/", "docs/install.md"),
           "python": (*COMPILED, "benchmarks/", "interop/", "scripts/", "tools/"), "sh": (*COMPILED, "scripts/"),
           "meson": COMPILED}
NAMED = ("cpp", "cmake", "python", "meson")  # languages whose blocks must name a file
# Files that run others: what a block of CMake or Python is cut from is named in one of them, a project by its folder.
RUNNERS = ("tests/CMakeLists.txt", "cmake/*.cmake", "scripts/*.sh")
RUN_BY_NAME = (".py", ".txt", ".cmake", ".build")
# The scripts with the function block(), which takes the first block of a language under a heading of a page.
WAYS = "scripts/check_ways*.sh"
TAKEN = re.compile(r'\bblock (\S+\.md) "?([^"\n]+?)"? (\w+)(?=\)| >)')
# The sketch that a user completes by a URL and its hash; `check_ways.sh sources` builds tests/ways/fetch_content so.
SKETCHES = {("docs/install.md", "Sources in your build", "cmake")}
OPENING = re.compile(rf"^ *```({'|'.join(FOLDERS)}|text)\b *(.*)$")
# Other marks of C++, which would hide a block from the check.
MARK = re.compile(r"^ *```(c\+\+|cc|cxx|cuda|cu|c|h|hpp)(?=\s|$)", re.IGNORECASE)
PICTURE = re.compile(r"!\[([^\]]*)\]\(")
FEWEST_WORDS = 4
CLOSING = re.compile(r"^ *```$")
LEFT_OUT = "…"
GUIDE = "CONTRIBUTING.md"
TABLE = re.compile(r"^<!-- cpp (\S+) -->$")
CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ +(.*?) *$")
FENCE = re.compile(r"^ *```")
DECISION = re.compile(r"^\| .* \| `([^`]+)` \| `(?:\w+::)*(\w+)` \|$")


def pages_of(root):
    """Yields the pages of the site."""
    yield from sorted(root.glob("*.md"))
    yield from sorted((root / "docs").rglob("*.md"))


def checked_pages(root):
    """Yields the pages of the repository."""
    yield from pages_of(root)
    yield from sorted((root / "packaging").glob("*/README.md"))


def blocks(page, wanted="cpp"):
    """Yields the line number of each block of a language or of output (`text`), the file that it names, or "", and its
    lines."""
    lines = page.split("\n")
    number = 0
    while number < len(lines):
        opening = OPENING.match(lines[number])
        number += 1
        if opening is None or opening.group(1) != wanted:
            continue
        first = number
        while number < len(lines) and not CLOSING.match(lines[number]):
            number += 1
        yield first, opening.group(2).strip(), lines[first:number]


def heading_of(page, number):
    """Returns the heading of the second level above a line."""
    found = re.findall(r"^## (.*)$", "\n".join(page.split("\n")[:number]), re.MULTILINE)
    return found[-1] if found else ""


def taken_blocks(root, page, name):
    """Yields the language, the line number and the lines of each block of a page that check_ways.sh runs."""
    for ways in root.glob(WAYS):
        for of_page, heading, language in TAKEN.findall(ways.read_text(encoding="utf-8")):
            found = [block for block in blocks(page, language) if heading_of(page, block[0]) == heading]
            if of_page == name and found:
                yield language, found[0][0], found[0][2]


def has_source(root, page, name, language, line):
    """Returns whether a block without a file may have none."""
    return (name, heading_of(page, line), language) in SKETCHES or any(
        taken == language and at == line for taken, at, _ in taken_blocks(root, page, name))


def source_of(root, language, name):
    """Returns the lines of which a block consists that names a file, or a page with a block that check_ways.sh runs."""
    text = (root / name).read_text(encoding="utf-8")
    if not name.endswith(".md"):
        return text.split("\n")
    return [line for taken, _, lines in taken_blocks(root, text, name) if taken == language for line in lines]


def is_run(root, file):
    """Returns whether a test or a script runs a file that no compiler checks."""
    if not file.endswith(RUN_BY_NAME):
        return True
    named = file.removesuffix("/CMakeLists.txt")
    # A CMakeLists.txt of tests/ names files by their place below it.
    names = (named, named.removeprefix("tests/"))
    return any(re.search(rf"(?<![\w-]){re.escape(one)}(?![\w-])", path.read_text(encoding="utf-8"))
               for pattern in RUNNERS for path in root.glob(pattern) for one in names)


def other_marks(page, name):
    """Yields the blocks whose mark is another name of C++."""
    for number, line in enumerate(page.split("\n"), 1):
        if found := MARK.match(line):
            yield f"{name}:{number}: C++ is marked as ```cpp, not ```{found.group(1)}"


def parts(lines):
    """Yields the position of each run of lines between those that are left out, and the run."""
    begin = 0
    for at, line in enumerate([*lines, LEFT_OUT]):
        if line.strip() == LEFT_OUT:
            if at > begin:
                yield begin, lines[begin:at]
            begin = at + 1


def indentation(line):
    return len(line) - len(line.lstrip())


def equal_lines(shown, source):
    """Returns how many lines agree from the first one on, with the source indented like the page."""
    moved = indentation(source[0]) - indentation(shown[0]) if source else 0
    for count, (mine, theirs) in enumerate(zip(shown, source)):
        if mine.strip() != theirs.strip() or mine.strip() and indentation(theirs) - indentation(mine) != moved:
            return count
    return min(len(shown), len(source))


def difference(shown, source):
    """Returns the position in `shown` of the first line that the source lacks; None if the source has all of them."""
    begin = 0
    for at, run in parts(shown):
        longest, found = 0, begin
        for place in range(begin, len(source)):
            count = equal_lines(run, source[place:place + len(run)])
            if count > longest:
                longest, found = count, place
        if longest < len(run):
            return at + longest
        begin = found + longest
    return None


def prose(page):
    """Yields the number of each line outside blocks of code, and the line."""
    in_code = False
    for number, line in enumerate(page.split("\n"), 1):
        if FENCE.match(line):
            in_code = not in_code
        elif not in_code:
            yield number, line


def headings(page):
    """Returns the names by which links lead to the headings of a page, as GitHub forms them."""
    names = set()
    for _, line in prose(page):
        heading = HEADING.match(line)
        if heading is None:
            continue
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1)).lower()
        name = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        count = 0
        while (numbered := f"{name}-{count}" if count else name) in names:
            count += 1
        names.add(numbered)
    return names


def dead_links(path, page, name):
    """Yields the links of a page that lead nowhere."""
    for number, line in prose(page):
        for file, heading in LINK.findall(re.sub(r"`[^`]*`", "``", line)):
            if re.match(r"\w+:", file):
                continue
            target = path.parent / file if file else path
            if not target.exists():
                yield f"{name}:{number}: there is no file '{file}'"
            elif heading and target.suffix == ".md" and heading not in headings(target.read_text(encoding="utf-8")):
                yield f"{name}:{number}: '{file or name}' has no heading '#{heading}'"


def silent_pictures(page, name):
    """Yields the pictures without a text in their place."""
    shown = dict(prose(page))
    text = "\n".join(re.sub(r"`[^`]*`", "``", shown.get(number, "")) for number in range(1, page.count("\n") + 2))
    for found in PICTURE.finditer(text):
        if len(found.group(1).split()) < FEWEST_WORDS:
            line = text.count("\n", 0, found.start()) + 1
            words = " ".join(found.group(1).split())
            yield f"{name}:{line}: the text in place of the picture has fewer than {FEWEST_WORDS} words: '{words}'"


def foreign_cells(root, page, name):
    """Yields the code in tables that the file which the page names for the table does not have."""
    source = None
    for number, line in prose(page):
        if table := TABLE.match(line):
            file = table.group(1)
            if not file.startswith(COMPILED) or not (root / file).is_file():
                yield f"{name}:{number}: '{file}' is no file of {' or '.join(COMPILED)}"
                source = None
                continue
            source = re.sub(r"\s", "", (root / file).read_text(encoding="utf-8"))
        elif source is not None and line.startswith("|"):
            for code in CODE.findall(line.rstrip(" |").split(" | ")[-1]):
                parts = re.sub(r"\s", "", code).split(LEFT_OUT)
                if not re.search(".*?".join(map(re.escape, parts)), source):
                    yield f"{name}:{number}: {file} does not have `{code}`"
        elif line:
            source = None


def wrong_decisions(root):
    """Yields what is wrong with the rows of the table of decisions."""
    lines = (root / GUIDE).read_text(encoding="utf-8").split("\n")
    marks = [at for at, line in enumerate(lines) if line.startswith(("<!-- decisions", "<!-- end of decisions"))]
    if len(marks) != 2 or marks[1] - marks[0] < 4:
        yield f"{GUIDE}: it has no table between '<!-- decisions' and '<!-- end of decisions'"
        return
    for at in range(marks[0] + 3, marks[1]):
        row = DECISION.match(lines[at])
        if row is None:
            yield f"{GUIDE}:{at + 1}: a row is '| question | `file` | `name` |'"
            continue
        file, name = row.groups()
        if not (root / file).is_file():
            yield f"{GUIDE}:{at + 1}: there is no file '{file}'"
        elif not re.search(rf"\b{name}\b", (root / file).read_text(encoding="utf-8")):
            yield f"{GUIDE}:{at + 1}: '{file}' does not have '{name}'"


def violations(root):
    root = Path(root)
    yield from wrong_decisions(root)
    programs = Programs(root)
    count = 0
    for path in checked_pages(root):
        page = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8")
        yield from dead_links(path, text, page)
        yield from foreign_cells(root, text, page)
        yield from silent_pictures(text, page)
        yield from other_marks(text, page)
        yield from wrong_commands(programs, text, page)
        yield from wrong_texts(root, programs, text, page)
        for language, folders in FOLDERS.items():
            for line, name, shown in blocks(text, language):
                if not name:
                    if language in NAMED and not has_source(root, text, page, language, line):
                        yield f"{page}:{line}: the block names no file that it is cut from: ```{language} {folders[0]}…"
                    continue
                count += 1
                if not name.startswith(folders) or not (root / name).is_file():
                    yield f"{page}:{line}: '{name}' is no file of {' or '.join(folders)}"
                    continue
                if not is_run(root, name):
                    yield f"{page}:{line}: no test or script runs '{name}': none of {', '.join(RUNNERS)} names it"
                at = difference(shown, source_of(root, language, name))
                if at is not None:
                    yield f"{page}:{line + at + 1}: {name} does not have this line here: {shown[at].strip()}"
    if count == 0:
        yield f"{root}: no page shows a part of a file"


if __name__ == "__main__":
    sys.exit(report_findings(violations, "snippets: the pages show the programs as they are"))
