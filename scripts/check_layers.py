#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the includes between rooms, the modules of the library: scripts/check_layers.py [repository root].

A room may include itself and rooms on lower steps. Includes must not form a circle. CUDA headers
may be named in runtime/, in kernels/ and in files that only nvcc or a CUDA build compiles (*.cuh,
*_cuda.cpp). Every source begins with its licence, and every header has #pragma once. The tests of a
room are compiled as one file, so all names that they declare at file level must differ. Names of
tests are snake_case. The private libraries of the programs, in apps/, include each other only as
APPS says, and public headers.
"""
import re
import sys
from pathlib import Path

from report_findings import report_findings

STEPS = {"base": 0, "order": 1, "trace": 1, "runtime": 2, "stream": 3, "memory": 4, "tensor": 5,
         "interop": 5, "ops": 6, "comm": 6, "step": 7, "serve": 8}
# The libraries in apps/, and for each the others that it may include.
APPS = {"cli": (), "data": (), "training": ("cli", "data"), "load": ("cli", "data")}
UMBRELLA = "include/msstream/msstream.hpp"
LICENCE = "// SPDX-License-Identifier: Apache-2.0"
SUFFIXES = {".hpp", ".cuh", ".cpp", ".cu"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
CUDA_HEADER = re.compile(
    r"(cuda|cub|thrust|cooperative_groups|nv|nvtx3)/"
    r"|(cuda|cublas|cupti|curand|cusparse|cooperative_groups|nccl|nvtx|nvml|nvrtc|driver_types|vector_types)\w*\.h")

TEST_NAME = re.compile(r"^\s*(?:TYPED_)?TEST(?:_[FP])?\s*\(\s*\w+\s*,\s*(\w+)\s*\)", re.MULTILINE)
SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")

# Matches a constant or a type that is declared at the level of a file: its declaration begins in
# the first column.
NAME_IN_FILE = re.compile(
    r"^(?:template <.*>\n)?(?:(?:inline |static )*(?:constexpr |const )[^({;=]*?\b|[\w:<>]+ const )(k[A-Z]\w*)[ \[{=]"
    r"|^(?:template <.*>\n)?(?:struct|class|enum class) (\w+)(?: final)?(?: :|\s*\{)", re.MULTILINE)


def room_of(path):
    """Returns the room of a file, given relative to the root; None if the order of rooms does not apply to it."""
    parts = Path(path).parts
    if path == UMBRELLA:
        return None
    if parts[0] == "kernels":
        return "ops"
    if parts[:2] == ("include", "msstream"):
        return parts[2]
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    return None


def may_name_cuda(path):
    return room_of(path) == "runtime" or path.startswith("kernels/") or path.endswith((".cuh", "_cuda.cpp"))


def project_file(root, source, opening, name):
    """Returns the project file that an include names, relative to the root; None for a header of another project."""
    if name.startswith("msstream/"):
        return "include/" + name
    if opening == '"':
        for folder in (Path(source).parent, Path("kernels"), Path("src")):
            if (root / folder / name).is_file():
                return (folder / name).as_posix()
    return None


def file_violations(root, path, text):
    if text.partition("\n")[0] != LICENCE:
        yield f"{path}:1: the first line is not '{LICENCE}'"
    if path.endswith((".hpp", ".cuh")) and "\n#pragma once\n" not in text:
        yield f"{path}:1: no #pragma once"
    room = room_of(path)
    if room is not None and room not in STEPS:
        yield f"{path}:1: '{room}' is not a room of the staircase"
        return
    for match in INCLUDE.finditer(text):
        opening, name = match.groups()
        place = f"{path}:{text.count(chr(10), 0, match.start(2)) + 1}"
        target = project_file(root, path, opening, name)
        if target is None:
            if CUDA_HEADER.match(name) and not may_name_cuda(path):
                yield f"{place}: names the CUDA header {name} outside runtime/ and kernels/"
            if opening == '"':
                yield f"{place}: there is no {name} beside it, in src/ or in kernels/"
        elif not (root / target).is_file():
            yield f"{place}: there is no {target}"
        elif path != UMBRELLA:
            theirs = room_of(target)
            if theirs is None:
                yield f"{place}: only users include {target}"
            elif theirs != room and STEPS.get(theirs, 99) >= STEPS[room]:
                yield f"{place}: {room}/ (step {STEPS[room]}) may not include {theirs}/ (step {STEPS.get(theirs)})"


def app_violations(root):
    """Yields what breaks the rules of apps/. Its files name each other by library: `#include "cli/options.hpp"`."""
    texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
             for path in sorted((root / "apps").rglob("*")) if path.suffix in SUFFIXES}
    for path, text in texts.items():
        library = Path(path).parts[1]
        if library not in APPS:
            yield f"{path}:1: '{library}' is not a library of apps/"
            continue
        if text.partition("\n")[0] != LICENCE:
            yield f"{path}:1: the first line is not '{LICENCE}'"
        if path.endswith(".hpp") and "\n#pragma once\n" not in text:
            yield f"{path}:1: no #pragma once"
        for match in INCLUDE.finditer(text):
            opening, name = match.groups()
            place = f"{path}:{text.count(chr(10), 0, match.start(2)) + 1}"
            theirs = name.partition("/")[0]
            if CUDA_HEADER.match(name):
                yield f"{place}: names the CUDA header {name} outside runtime/ and kernels/"
            elif name.startswith("msstream/"):
                if not (root / "include" / name).is_file():
                    yield f"{place}: there is no include/{name}"
            elif theirs in APPS and theirs != library and theirs not in APPS[library]:
                yield f"{place}: apps/{library}/ may not include apps/{theirs}/"
            elif (opening == '"' or theirs in APPS) and f"apps/{name}" not in texts:
                yield f"{place}: there is no apps/{name}"
    graph = {path: ["apps/" + name for _, name in INCLUDE.findall(text) if "apps/" + name in texts]
             for path, text in texts.items()}
    yield from ("includes in a circle: " + " -> ".join(circle) for circle in circles(graph))


def circles(graph):
    """Yields each circle of includes once, as the files along it."""
    done, trail = set(), []

    def visit(path):
        if path in trail:
            yield trail[trail.index(path):] + [path]
        elif path not in done:
            trail.append(path)
            for target in graph.get(path, ()):
                yield from visit(target)
            trail.pop()
            done.add(path)

    for path in sorted(graph):
        yield from visit(path)


def shared_names(texts):
    """Yields each name that two test files of one folder declare at file level; `texts` maps paths to contents."""
    owners = {}
    for path, text in texts.items():
        for match in NAME_IN_FILE.finditer(text):
            name = match.group(1) or match.group(2)
            first = owners.setdefault((Path(path).parent, name), path)
            if first != path:
                line = text.count("\n", 0, match.start(match.lastindex)) + 1
                yield f"{path}:{line}: {first} has a {name} too, and both are compiled as one file"


def misnamed_tests(path, text):
    for match in TEST_NAME.finditer(text):
        if not SNAKE_CASE.fullmatch(match.group(1)):
            yield f"{path}:{text.count(chr(10), 0, match.start(1)) + 1}: the test {match.group(1)} is not in snake_case"


def violations(root):
    root = Path(root)
    texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
             for top in ("include", "src", "kernels")
             for path in sorted((root / top).rglob("*")) if path.suffix in SUFFIXES}
    found = [problem for path, text in texts.items() for problem in file_violations(root, path, text)]
    graph = {path: [target for opening, name in INCLUDE.findall(text)
                    if (target := project_file(root, path, opening, name)) in texts]
             for path, text in texts.items()}
    found += ["includes in a circle: " + " -> ".join(circle) for circle in circles(graph)]
    found += app_violations(root)
    tests = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
             for path in sorted((root / "tests").rglob("*")) if path.suffix in SUFFIXES}
    found += shared_names({path: text for path, text in tests.items() if path.endswith("_test.cpp")})
    found += [problem for path, text in tests.items() for problem in misnamed_tests(path, text)]
    if not texts:
        found.append(f"{root}: no sources found")
    return found


if __name__ == "__main__":
    sys.exit(report_findings(violations, "layers: every room includes only what it may"))
