#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that operations pass on the source location of their caller: scripts/check_places.py [repository root].

issue() and all functions that use it take a `std::source_location issued_at`, which defaults to the line of
the call, so that a report names the user's line. A header that calls one of them must pass on the source
location that it received: a report on a call without one would name the header.
"""
import re
import sys
from pathlib import Path

from report_findings import report_findings

HEADERS = "include/msstream"
# The rooms whose functions issue work for their caller's line. The room serve/ is not among them:
# it issues from threads of its own.
ROOMS = ("tensor", "ops", "comm", "step", "metrics")
# Matches issued_at as a whole argument of a call; inside another argument it belongs to another
# call. A function that passes all its arguments on, as `args...`, passes the location on too.
PLACE = re.compile(r"[,(]\s*(?:(?:\w+(?:\.|->))*issued_at|args\.\.\.)(?=[,)])")
OF_THE_LIBRARY = ("", "ops", "detail", "msstream", "msstream::ops", "msstream::detail", "ops::detail")
CALL = re.compile(r"((?:\w+::)*)\b(\w+)\s*(?:<[\w\s,:]*>)?\(")
# Members that issue nothing, but have the name of a member of another room's class that does.
OTHERS = ("tracker.advance", "result.reset", "features_.reset", "prepared_.reset")
KEYWORDS = {"return", "co_return", "else", "case", "throw"}


def blank(found):
    return re.sub(r"[^\n]", " ", found.group())


def code_of(text):
    """Returns the text with comments, preprocessor lines and quoted strings replaced by blanks."""
    return re.sub(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|^#(?:[^\n\\]|\\.)*', blank, text, flags=re.MULTILINE | re.DOTALL)


def end_of_brackets(code, at):
    """Returns the position at which the bracket at `at` closes."""
    depth = 0
    for end in range(at, len(code)):
        depth += code[end] in "([{"
        depth -= code[end] in ")]}"
        if depth == 0:
            return end
    return len(code)


def outermost(arguments):
    """Returns the arguments without everything inside brackets."""
    while arguments != (arguments := re.sub(r"\([^()]*\)|\{[^{}]*\}|\[[^\[\]]*\]", "", arguments)):
        pass
    return arguments


class Call:
    """A name followed by a list in parentheses: a call or a declaration."""

    def __init__(self, code, found):
        self.name = found.group(2)
        self.qualifier = found.group(1).removesuffix("::")
        self.at = found.start()
        self.opened = found.end() - 1
        self.closed = end_of_brackets(code, self.opened)
        self.arguments = code[self.opened + 1:self.closed]
        before = code[max(0, self.at - 60):self.at].rstrip()
        word = re.search(r"\w*$", before).group()
        self.is_foreign = before.endswith("::") or self.qualifier not in OF_THE_LIBRARY
        self.is_member = before.endswith((".", "->"))
        self.is_other = (before + self.name).endswith(OTHERS)
        named_type = before.endswith(">") and not before.endswith("->") or re.search(r"[^&]&$", before)
        self.is_declaration = bool(named_type or (word and word not in KEYWORDS and not word.isdigit()))

    @property
    def has_place(self):
        return PLACE.search(f"({outermost(self.arguments)})") is not None

    @property
    def takes_place(self):
        return self.is_declaration and re.search(r"source_location\s+issued_at\b", self.arguments) is not None

    @property
    def has_default(self):
        return re.search(r"issued_at\s*=", self.arguments) is not None


def calls_of(code):
    return [Call(code, found) for found in CALL.finditer(code)]


def names_of(codes):
    """Returns the names of functions and of members whose source location has a default. A member's
    name is left out if a class has a member of that name without a source location.
    """
    functions, members, other_members = set(), set(), set()
    for code in codes:
        for call in calls_of(code):
            is_member = is_indented(code, call.at)
            if call.takes_place and call.has_default:
                (members if is_member else functions).add(call.name)
            elif call.is_declaration and not call.takes_place and is_member:
                other_members.add(call.name)
    return functions, members - other_members


def is_indented(code, at):
    return code[code.rfind("\n", 0, at) + 1:].startswith(" ")


def hidden_in_classes(code, calls):
    """Yields the begin and end of each class, with the names of its own functions that take no source location."""
    for found in re.finditer(r"^(?:class|struct)\b[^;(){]*{", code, re.MULTILINE):
        begin, end = found.end() - 1, end_of_brackets(code, found.end() - 1)
        yield begin, end, {call.name for call in calls
                           if begin < call.at < end and call.is_declaration and not call.takes_place}


def calls_without_place(code, functions, members):
    calls = calls_of(code)
    hidden = list(hidden_in_classes(code, calls))
    for call in calls:
        if call.has_place or call.is_declaration:
            continue
        if call.is_member:
            if call.name in members and not call.is_other:
                yield call
        elif call.name in functions and not call.is_foreign and (
                call.qualifier or not any(begin < call.at < end and call.name in names
                                          for begin, end, names in hidden)):
            yield call


def violations(root):
    headers = {path: code_of(path.read_text()) for path in sorted((root / HEADERS).rglob("*.hpp"))}
    issuing = {path: code for path, code in headers.items() if path.relative_to(root / HEADERS).parts[0] in ROOMS}
    functions, members = names_of(issuing.values())
    if "issue" not in functions:
        yield f"{HEADERS}: no issue() takes a place"
    for path, code in issuing.items():
        where = path.relative_to(root)
        for call in calls_without_place(code, functions, members):
            line = code.count("\n", 0, call.at) + 1
            yield f"{where}:{line}: {call.name}() without issued_at: a report would name this line and not the user's"
        for found in re.finditer(r"source_location::current\(\)(?!\s*[,)])", code):
            line = code.count("\n", 0, found.start()) + 1
            yield f"{where}:{line}: a place that is made here; it is the default of a parameter"


if __name__ == "__main__":
    sys.exit(report_findings(violations, "places: operations pass the place of their caller on"))
