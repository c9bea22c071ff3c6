# SPDX-License-Identifier: Apache-2.0
"""The blocks of the pages that are no code: what programs print, contents of files, and drawings.

Behind "```text" or "```json" stands where the block is from:

    examples/teach/two_streams.cpp   what that program prints; scripts/check_outputs.py runs it
    tests/pages/messages_test.cpp    a text in that test, which compares it with what the library says or reads. Strings of
                                     C++ that follow each other are one, and line breaks are spaces. "…" stands for any text
    msstream-doctor                  what a program prints, with a check of its own, which is in OWN
    measured msstream-doctor         what a program printed on one machine; it exists, and has the options that are named
    sample                           lines of a file that other programs write
    drawing                          a drawing of characters

No block is without such a name, and none is marked by its indentation alone.
"""
import re

from snippet_commands import wrong_options

FENCE = re.compile(r"^ *```(.*)$")
LEFT_OUT = "…"
LABELS = ("drawing", "sample")
# Programs whose output is checked by a test that finds its block by this name, and that test.
OWN = {"msstream-doctor": "tests/doctor/tool_test.cpp",
       "teach_finding_races": "examples/teach/finding_races_test.cmake",
       "gdb": "tests/gdb/printers_test.py"}
IN_LIST = re.compile(r" ?(?:[-*] |\d+\. )")


def every_block(page):
    """Yields the line number of each block between fences, what stands behind the first fence, and the lines."""
    begin, info, lines = 0, "", []
    for number, line in enumerate(page.split("\n"), 1):
        fence = FENCE.match(line)
        if fence and not begin:
            begin, info, lines = number, fence.group(1).strip(), []
        elif fence:
            yield begin, info, lines
            begin = 0
        elif begin:
            lines.append(line)


def indented_blocks(page):
    """Yields the line number of each block that its indentation alone marks: behind an empty line, and in no list."""
    is_in_block, is_in_list, is_behind_empty = False, False, True
    for number, line in enumerate(page.split("\n"), 1):
        if FENCE.match(line):
            is_in_block = not is_in_block
        elif not is_in_block and line:
            if not line.startswith("  "):
                is_in_list = IN_LIST.match(line) is not None
            elif line.startswith("    ") and is_behind_empty and not is_in_list:
                yield number
        is_behind_empty = not line


def words_of(source):
    """Returns the words of a test with spaces between them, without comments, and with its strings joined."""
    text = re.sub(r"^ *//.*$", "", source, flags=re.MULTILINE)
    text = re.sub(r'"\s*\n\s*"', "", text)
    return " ".join(text.replace('\\"', '"').replace("\\n", " ").split())


def missing_text(shown, source):
    """Returns the first line of `shown` up to which the source has the text, but not further; None if it has all."""
    words = words_of(source)
    for end in range(1, len(shown) + 1):
        wanted = " ".join(" ".join(shown[:end]).split())
        if not re.search(".*?".join(map(re.escape, (part.strip() for part in wanted.split(LEFT_OUT)))), words):
            return end - 1
    return None


def wrong_texts(root, programs, page, name):
    """Yields what is wrong with the blocks of a page that are no code."""
    for number in indented_blocks(page):
        yield f"{name}:{number}: the block is marked by its indentation: put it between ```text … and ```"
    for number, info, lines in every_block(page):
        language, _, source = info.partition(" ")
        if not language:
            yield f"{name}:{number}: the block has no language: ```text, and where it is from"
        if language not in ("text", "json"):
            continue
        words = source.split()
        if source in LABELS:
            continue
        if not words:
            yield f"{name}:{number}: the block does not say where it is from: ```{language} examples/…, tests/… or measured …"
        elif words[0] == "measured":
            if len(words) < 2 or programs.find(words[1]) is None:
                yield f"{name}:{number}: there is no program '{' '.join(words[1:2])}'"
            yield from (f"{name}:{number}: {wrong}" for wrong in wrong_options(programs, words[1:]))
        elif words[0] in OWN:
            test = root / OWN[words[0]]
            if not test.is_file() or f"{language} {words[0]}" not in test.read_text(encoding="utf-8"):
                yield f"{name}:{number}: '{OWN[words[0]]}' does not look for ```{language} {words[0]}"
        elif words[0].startswith("tests/"):
            if not (root / words[0]).is_file():
                yield f"{name}:{number}: there is no file '{words[0]}'"
            elif (at := missing_text(lines, (root / words[0]).read_text(encoding="utf-8"))) is not None:
                yield f"{name}:{number + at + 1}: {words[0]} does not have this text here: {lines[at].strip()}"
        elif words[0].startswith("examples/"):
            if not (root / words[0]).is_file():
                yield f"{name}:{number}: the block shows what '{words[0]}' prints, and there is no such file"
        else:
            yield f"{name}:{number}: '{words[0]}' is neither a file of examples/ or tests/ nor a program with a check of its own"
