#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks pages that list parts of the code: scripts/check_reference.py [repository root].

Each section of docs/reference.md is named after a class, and names the header that defines the class. The table of the
section must have a row for each public member of the class, and no other rows.

The table of docs/ops.md under "Which header has what" must have all operations of each header, without gradients; those
that have a form with a tape alone are named elsewhere on the page. docs/state.md must name each variable of a thread, and
each environment variable that begins with MSSTREAM_, of include/, src/ and kernels/.
"""
import re
import sys
from pathlib import Path

from check_places import code_of, names_of
from report_findings import report_findings

PAGE = "docs/reference.md"
SECTION = re.compile(r"^## `(\w+)`\n+`<(msstream/[\w/]+\.hpp)>`(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
OPERATIONS = "docs/ops.md"
OPS = "include/msstream/ops"
WITH_TAPE = "include/msstream/step/differentiable"
BY_HEADER = re.compile(r"^## Which header has what\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
HEADER_ROW = re.compile(r"^\| `(\w+\.hpp)` \| (.*) \|$", re.MULTILINE)
STATE = "docs/state.md"
CODE = ("include", "src", "kernels")
OF_THREAD = re.compile(r"\bthread_local\b[^;={(]*?(\w+)(?:\[\w*\])?\s*(?:;|=|\{)")
ENVIRONMENT = re.compile(r'"(MSSTREAM_[A-Z0-9_]+)"')
ROW = re.compile(r"^\| ((?:`[^`]+`(?:, )?)+) \|", re.MULTILINE)


def collapsed(text, opening, closing):
    """Returns the text without the contents of its outermost brackets."""
    out, depth = [], 0
    for character in text:
        depth -= character == closing
        if depth == 0:
            out.append(character)
        depth += character == opening
    return "".join(out)


def bodies_of(name, header):
    """Yields, for each definition of the class and its specialisations, the text between the braces and whether it
    begins as public."""
    text = re.sub(r"//[^\n]*|^#[^\n]*", "", header, flags=re.MULTILINE)
    for found in re.finditer(rf"^(class|struct) {name}\b[^;{{]*{{", text, re.MULTILINE):
        opened = text[found.end() - 1:]
        yield opened[1:len(opened) - len(after_brackets(opened)) - 1], found.group(1) == "struct"


def after_brackets(text):
    """Returns the text after the braces that `text` begins with."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return text[at + 1:]
    return ""


def public_members(name, header):
    """Returns the names of public constructors, functions, types and data; of the operators, only operator[]. Returns
    None without a definition."""
    bodies = list(bodies_of(name, header))
    return set().union(*(members_of(*body) for body in bodies)) if bodies else None


def members_of(text, is_public):
    """Returns the names of the public members in the body of a class."""
    text = text.replace("operator[]", "operator_index")
    text = re.sub(r"operator\s*[^\s\w(]+", "operator_other", text)
    text = collapsed(collapsed(text, "{", "}"), "(", ")")
    text = re.sub(r"\[\[[^\]]*\]\]", "", text)
    while text != (text := re.sub(r"<[^<>]*>", "", text)):
        pass
    members = set()
    # A member ends with a semicolon, or with the body of a function that no comma or further braces
    # follow.
    for part in re.split(r";|(?<={})(?=\s*(?![\s;,{]))|(?<=public:)|(?<=private:)|(?<=protected:)", text):
        part = re.sub(r"\b(template|requires\s*\(\))\s", " ", part).strip()
        if part in ("public:", "private:", "protected:"):
            is_public = part == "public:"
        elif is_public and part and "= delete" not in part and not re.match(r"friend\b|~", part):
            alias = re.match(r"(?:using|struct|class|enum class) (\w+)", part)
            member = alias.group(1) if alias else re.findall(r"\w+", re.split(r"\(\)|=|{}", part)[0])[-1:]
            members.update([member] if alias else member)
    members.discard("operator_other")
    return {member.replace("operator_index", "operator[]") for member in members}


def rows_of(section):
    """Returns the members that the table names: the part of a code span before a parenthesis, or the whole span."""
    return {re.match(r"operator\[\]|\w+", span).group() for row in ROW.findall(section)
            for span in re.findall(r"`([^`]+)`", row)}


def operations_of(path):
    """Returns the operations that a header declares, without gradients."""
    functions, _ = names_of([code_of(path.read_text())])
    return {name for name in functions if not name.endswith("_gradient")}


def wrong_operations(root):
    """Yields what docs/ops.md lacks, and what it has in the wrong row."""
    page = (root / OPERATIONS).read_text()
    table = BY_HEADER.search(page)
    rows = dict(HEADER_ROW.findall(table.group(1))) if table else {}
    headers = sorted((root / OPS).glob("*.hpp"))
    for path in headers:
        declared = operations_of(path)
        shown = set(re.findall(r"`(\w+)`", rows.pop(path.name, "")))
        yield from (f"{OPERATIONS}: the row of {path.name} lacks `{name}`" for name in sorted(declared - shown))
        yield from (f"{OPERATIONS}: the row of {path.name} has `{name}`, which it does not declare"
                    for name in sorted(shown - declared))
    yield from (f"{OPERATIONS}: there is no header {name}" for name in sorted(rows))
    words = set(re.findall(r"\w+", page))
    for path in sorted((root / WITH_TAPE).glob("*.hpp")):
        yield from (f"{OPERATIONS}: it does not name `{name}` of {WITH_TAPE}/{path.name}"
                    for name in sorted(operations_of(path) - words))


def wrong_state(root):
    """Yields the variables that docs/state.md does not name."""
    words = set(re.findall(r"\w+", (root / STATE).read_text()))
    for folder in CODE:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".hpp", ".cpp", ".cu", ".cuh"):
                continue
            text = re.sub(r"//[^\n]*", "", path.read_text())
            names = {*OF_THREAD.findall(text), *ENVIRONMENT.findall(text)}
            yield from (f"{STATE}: it does not name `{name}` of {path.relative_to(root)}" for name in sorted(names - words))


def violations(root):
    yield from wrong_operations(root)
    yield from wrong_state(root)
    sections = SECTION.findall((root / PAGE).read_text())
    if not sections:
        yield f"{PAGE}: no section names a class and its header"
    for name, header, text in sections:
        path = root / "include" / header
        members = public_members(name, path.read_text()) if path.is_file() else None
        if members is None:
            yield f"{PAGE}: include/{header} does not define {name}"
            continue
        rows = rows_of(text)
        for member in sorted(members - rows):
            yield f"{PAGE}: the table of {name} lacks `{member}`, a public member in include/{header}"
        for member in sorted(rows - members):
            yield f"{PAGE}: the table of {name} has `{member}`, which is no public member in include/{header}"


if __name__ == "__main__":
    sys.exit(report_findings(violations, "reference: the pages have all members, operations and variables"))
