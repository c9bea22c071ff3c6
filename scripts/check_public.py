#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the public interface stays small: scripts/check_public.py [repository root].

A public header is a header of include/msstream outside the folders named detail. A public type is a class, struct,
union or enumeration that a public header defines in a namespace, outside the namespaces named detail. A template counts
once, with its specialisations. Types inside a class belong to that class and do not count; neither do forward
declarations, aliases and concepts.

A check that fails lists the headers with the most types. A type that users do not name belongs into the class that uses
it, into the namespace detail, or into src/.
"""
import re
import sys
from pathlib import Path

from report_findings import report_findings

MOST_HEADERS = 112
MOST_TYPES = 170

TYPE = re.compile(r"(?:^|[\s>])(?:class|struct|union|enum(?: class| struct)?) (?:alignas\([^)]*\) )?(\w+)"
                  r"(?: final)?(?: ?:(?!:).*)?$", re.DOTALL)
NAMESPACE = re.compile(r"(?:^|\s)namespace ?([\w:]*)$")


def code_of(text):
    """Returns the text without comments, literals, directives, attributes and the contents of angle brackets."""
    text = re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', '""', text)
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE)
    text = re.sub(r"\[\[[^\]]*\]\]", "", text)
    while text != (text := re.sub(r"<[^<>;{}]*>", " ", text)):
        pass
    return re.sub(r"\s+", " ", text)


def public_types(text):
    """Returns the names of the public types that a header defines, with their namespaces."""
    names, scopes, begin = set(), [], 0
    code = code_of(text)
    for brace in re.finditer(r"[{};]", code):
        head = code[begin:brace.start()].strip()
        begin = brace.end()
        if brace.group() == "}":
            scopes and scopes.pop()
        elif brace.group() == "{":
            opened = NAMESPACE.search(head)
            found = TYPE.search(head)
            if opened is None and found is not None and None not in scopes and "detail" not in "::".join(scopes).split("::"):
                names.add("::".join([*scopes, found.group(1)]))
            scopes.append(opened.group(1) if opened is not None else None)
    return names


def violations(root):
    folder = Path(root, "include/msstream")
    headers = [path for path in sorted(folder.rglob("*"))
               if path.suffix in (".hpp", ".cuh") and "detail" not in path.relative_to(folder).parts]
    if not headers:
        yield f"{folder}: there are no headers"
    if len(headers) > MOST_HEADERS:
        yield f"include/msstream: {len(headers)} public headers; at most {MOST_HEADERS}"
    types = {path.relative_to(folder).as_posix(): public_types(path.read_text(encoding="utf-8")) for path in headers}
    count = len(set().union(*types.values()))
    if count > MOST_TYPES:
        largest = sorted(types, key=lambda path: -len(types[path]))[:3]
        yield (f"include/msstream: {count} public types; at most {MOST_TYPES}. The headers with the most: " +
               ", ".join(f"{path} ({len(types[path])})" for path in largest))


if __name__ == "__main__":
    sys.exit(report_findings(violations, "public: the public headers and types are within their budgets"))
