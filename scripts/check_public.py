#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the public interface stays small: scripts/check_public.py [repository root].

A public header is a header of include/msstream outside the folders named detail. A public type is a class, struct,
union or enumeration that a public header defines in a namespace, outside the namespaces named detail. A template counts
once, with its specialisations. Types inside a class belong to that class and do not count; neither do forward
declarations, aliases and concepts. The rooms of TRAINER_ROOMS, with what writers of trainers need besides operations
and steps, have a budget of their own.

A check that fails lists the headers with the most types. A type that users do not name belongs into the class that uses
it, into the namespace detail, or into src/.
"""
import re
import sys
from pathlib import Path

from report_findings import report_findings

TRAINER_ROOMS = ("metrics", "data", "checkpoint", "report", "model")
MOST_TRAINER_HEADERS = 40
MOST_TRAINER_TYPES = 70
MOST_HEADERS = 134  # in all other rooms
MOST_TYPES = 207

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
    of_trainer = [path for path in headers if path.relative_to(folder).parts[0] in TRAINER_ROOMS]
    of_others = [path for path in headers if path not in of_trainer]
    yield from too_many(folder, "include/msstream", of_others, MOST_HEADERS, MOST_TYPES)
    yield from too_many(folder, f"include/msstream/{{{','.join(TRAINER_ROOMS)}}}", of_trainer, MOST_TRAINER_HEADERS,
                        MOST_TRAINER_TYPES)


def too_many(folder, place, headers, most_headers, most_types):
    if len(headers) > most_headers:
        yield f"{place}: {len(headers)} public headers; at most {most_headers}"
    types = {path.relative_to(folder).as_posix(): public_types(path.read_text(encoding="utf-8")) for path in headers}
    count = len(set().union(*types.values()))
    if count > most_types:
        largest = sorted(types, key=lambda path: -len(types[path]))[:3]
        yield (f"{place}: {count} public types; at most {most_types}. The headers with the most: " +
               ", ".join(f"{path} ({len(types[path])})" for path in largest))


if __name__ == "__main__":
    sys.exit(report_findings(violations, "public: the public headers and types are within their budgets"))
