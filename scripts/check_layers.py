#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the includes between rooms, the modules of the library: scripts/check_layers.py [--fix] [repository root].

A room is a folder of include/msstream/, with the folder of its name in src/ and in tests/, and their sub-folders. A
room may include itself and rooms on lower steps (ROOMS). Includes must not form a circle, nor may those between the
sub-folders of a room in src/. A folder of include/, src/, kernels/ or tests/ has at most 40 sources.

- The room kernels/ is the folder kernels/. Of ops/ it may include the words of users: headers that need nothing but
  base/, for example ops/choices.hpp. Its headers are private: the sources of ops/ include them, and no public header.
- kernels/ consists of families, which are its folders. A family may include itself and families on lower steps
  (FAMILIES).
- The private libraries of the programs, in apps/, include public headers, and each other as APPS says.
- Folders of src/memory/ that FRONTS lists have headers in front of the others: files of src/ in another folder include
  only these.
- A folder of tests/ may include what its room may, and what TESTS_ALSO_USE adds. A test may instead be written as a
  user's program, and include <msstream/msstream.hpp>. A folder of tests/ with the name of no room tests the whole
  library, and may include everything; tests of rooms do not include it.

CUDA headers may be named in runtime/, in kernels/, in tests and in files that only nvcc or a CUDA build compiles
(*.cuh, *_cuda.cpp). Every source of the library begins with its licence, and every header has #pragma once. The tests
of a room are compiled as one file, so all names that they declare at file level must differ. Names of tests are
snake_case.

A public header includes no header of fmt, except for those of FMT_HEADERS. Nor does a file that nvcc compiles (*.cu,
*.cuh) anywhere in the repository.

Every public header reaches SAME_LIBRARY, by which the linker compares the versions of headers and library, except
VERSION, which has the numbers alone.

The tables of rooms, families and libraries in the pages of PAGES are written from the tables below. With --fix they are
written again; without it, a page that differs is an error.
"""
import os
import re
import sys
from collections import Counter
from pathlib import Path

from report_findings import report_findings

# The rooms: for each its step, which is above those of the rooms that it may include, and its
# content.
ROOMS = {
    "base": (0, "errors, shapes, element types, texts, JSON, options, closures, files; standard library, POSIX and fmt alone"),
    "order": (1, "positions, vector clocks, access logs, the order in which waits are tried; no threads, no CUDA"),
    "trace": (1, "names, NVTX ranges, recorded spans, reports"),
    "report": (1, "reports of a run: the progress line, JSON, TensorBoard's event files"),
    "runtime": (2, "the `Runtime` concept, `Host`, `Cuda`, `Sim`, `Checked`, `Faulty`; names CUDA"),
    "stream": (3, "events, the dependency tracker, groups, pools, scopes, launch threads, assignments"),
    "kernels": (3, "kernels and their CPU twins; private; names CUDA"),
    "memory": (4, "blocks, allocators, buffers, `Device`"),
    "tensor": (5, "tensors, copies, DLPack, and `issue()`, the only entry for work"),
    "interop": (5, "allocators for CCCL, Thrust and PyTorch; headers for nvcc (`.cuh`)"),
    "ops": (6, "operations, forward and backward, as free functions"),
    "comm": (6, "ranks, and collectives between them; `comm::Communicator`"),
    "capture": (6, "captures of work into graphs, and their replay; private; lower rooms use the interface `OpenCapture`"),
    "step": (7, "gradient tape, differentiable operations, optimizer, captured steps, pipelines, step traces"),
    "metrics": (7, "streaming metrics on the device"),
    "data": (8, "readers of files, the columns of their rows, shuffled batches, and their uploads"),
    "overlap": (9, "why streams did not overlap: recordings of programs, causes of lost time, reports"),
    "serve": (9, "inference pools, and queries of rows"),
    "checkpoint": (9, "safetensors files, saving and loading of named tensors, checkpoints written beside a training"),
}
STEPS = {room: step for room, (step, _) in ROOMS.items()}

# The folders of kernels/: for each its step, which is above those of the folders that it may
# include, and its content.
FAMILIES = {
    "common": (0, "launches, vector accesses, long sums, host threads, workspaces, reports of bad ids, rows moved, Philox"),
    "ids": (1, "bags and their offsets; sorting, deduplicating, numbering, hashing and converting ids"),
    "random": (1, "random numbers by counter: fills, dropout, the state of a generator"),
    "elementwise": (1, "of elements and rows: arithmetic, reductions, softmax, top k"),
    "optimizer": (1, "updates of dense parameters and of rows of tables, by the rules of optimizers"),
    "normalize": (2, "layer norm, batch norm, gates by the statistics of columns, rows divided by their norms"),
    "embedding": (2, "lookups in one table and in many; gathering and scattering rows"),
    "segment": (2, "reductions of segments of rows, and their gradients"),
    "jagged": (2, "jagged rows to dense ones and back, softmax of segments, lengths and offsets"),
    "dense": (2, "dense layers, matrix products, transposition, mixtures of experts"),
    "metrics": (2, "sums, kept scores and buckets of metrics; areas under ROC curves by sorting"),
    "mixed": (3, "conversions between precisions, cross layers, half-precision dot interactions, products of 8-bit floats, elementwise gradients with the sums of their columns"),
    "embedding_gradient": (3, "gradients of lookups, summed by row, and updates of tables fused with them"),
}
MOST_FILES = 40

# The content of each library in apps/, and the others that it may include.
APPS = {
    "cli": ("options, reports, progress, and the files that a program writes", ()),
    "datasets": ("data sets of the examples: their formats, generators, rows in memory", ()),
    "dashboard": ("what --dashboard shows, as bounded curves and as JSON; its page, and the server", ()),
    "training": ("the driver of a training: batches on the device, steps, metrics, stream groups",
                 ("cli", "datasets", "dashboard")),
    "load": ("the load generator: queries for an inference pool, and their measures", ("cli", "datasets")),
}

# The headers in front of a folder of src/, with the class that each declares and its task. Files of src/ in other
# folders include no other header of the folder.
FRONTS = {
    "src/memory/large/large_allocator.hpp": (
        "LargeAllocator", "blocks of any size; each step of the search for a large block is one of its functions"),
    "src/memory/large/group_shares.hpp": ("GroupShares", "parts of the memory lent to groups, which alone cut them"),
    "src/memory/supply/backing_memory.hpp": (
        "BackingMemory", "what the runtime gives, under limits, as pages in one range or in pieces; the arena in it"),
}

# The rooms that a folder of tests may include beyond those of its room: tests of memory use
# tensors, and tests of tensors use operations.
TESTS_ALSO_USE = {"memory": {"tensor"}, "tensor": {"ops"}}

# The public headers that may include fmt. Programs include the first one to use fmt, and sources of the library the
# second one.
FMT_HEADERS = ("include/msstream/base/format.hpp", "include/msstream/base/detail/require.hpp")
# The folders with sources, those of programs included.
FOLDERS = ("include", "src", "kernels", "tests", "apps", "examples", "benchmarks", "interop", "tools")

UMBRELLA = "include/msstream/msstream.hpp"
VERSION = "include/msstream/base/version.hpp"
SAME_LIBRARY = "include/msstream/base/detail/same_library.hpp"
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
    """Returns the room of a file, given relative to the root; None if it is in no room."""
    parts = Path(path).parts
    if parts[0] == "kernels":
        return "kernels"
    if parts[:2] == ("include", "msstream") and len(parts) > 3:
        return parts[2]
    if parts[0] in ("src", "tests") and len(parts) > 2:
        return parts[1]
    return None


def is_free(path):
    """Returns whether a file may include everything: a test of the whole library."""
    return path.startswith("tests/") and room_of(path) not in STEPS


def family_of(path):
    """Returns the family of a file in kernels/; None for all others."""
    parts = Path(path).parts
    return parts[1] if parts[0] == "kernels" and len(parts) > 2 else None


def may_name_cuda(path):
    return (path.startswith(("kernels/", "tests/")) or room_of(path) == "runtime" or
            path.endswith((".cuh", "_cuda.cpp", "_cuda.hpp")))


def project_file(root, source, opening, name):
    """Returns the project file that an include names, relative to the root; None for a header of another project."""
    if name.startswith("msstream/"):
        return "include/" + name
    if opening == '"':
        tests = (Path("tests"), Path("tools/overlap")) if source.startswith("tests/") else ()
        for folder in (Path(source).parent, *tests, Path("kernels"), Path("src")):
            if (root / folder / name).is_file():
                return Path(os.path.normpath(folder / name)).as_posix()
    return None


def is_word(path, texts):
    """Returns whether a file is a header of ops/ that needs nothing but base/."""
    return (room_of(path) == "ops" and path.startswith("include/") and
            all(name.startswith("msstream/base/")
                for _, name in INCLUDE.findall(texts.get(path, "")) if name.startswith("msstream/")))


def refusal(path, target, texts):
    """Returns why a file may not include another one of the project; None if it may."""
    if path == UMBRELLA or (path.startswith("tests/") and target.startswith("tools/")):
        return None
    if target == UMBRELLA:
        return None if path.startswith("tests/") else f"only users include {target}"
    room, theirs = room_of(path), room_of(target)
    folder = Path(target).parent.as_posix()
    if path.startswith("src/") and Path(path).parent.as_posix() != folder and target not in FRONTS:
        fronts = [front for front in FRONTS if Path(front).parent.as_posix() == folder]
        if fronts:
            return f"of {folder}/, other folders include only {' and '.join(Path(front).name for front in fronts)}"
    if theirs not in STEPS:
        return f"{room}/ may not include {target}, which is in no room"
    if room == theirs:
        family, other = family_of(path), family_of(target)
        if family != other and family in FAMILIES and other in FAMILIES and FAMILIES[other][0] >= FAMILIES[family][0]:
            return (f"{family}/ (step {FAMILIES[family][0]} of kernels/) may not include "
                    f"{other}/ (step {FAMILIES[other][0]})")
        return None
    if room == "kernels" and is_word(target, texts):
        return None
    if path.startswith("tests/") and theirs in TESTS_ALSO_USE.get(room, ()):
        return None
    if STEPS[theirs] >= STEPS[room]:
        return f"{room}/ (step {STEPS[room]}) may not include {theirs}/ (step {STEPS[theirs]})"
    return None


def file_violations(root, path, texts):
    text = texts[path]
    if not path.startswith("tests/"):
        if text.partition("\n")[0] != LICENCE:
            yield f"{path}:1: the first line is not '{LICENCE}'"
    if path.endswith((".hpp", ".cuh")) and "\n#pragma once\n" not in text:
        yield f"{path}:1: no #pragma once"
    if is_free(path):
        return
    if path != UMBRELLA and room_of(path) not in STEPS:
        yield f"{path}:1: '{room_of(path)}' is not a room of the staircase"
        return
    if path.startswith("kernels/") and family_of(path) not in FAMILIES:
        yield f"{path}:1: '{family_of(path)}' is not a family of kernels/"
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
        elif path.startswith("include/") and not target.startswith("include/"):
            yield f"{place}: a public header may not include {target}, which is not installed"
        elif (reason := refusal(path, target, texts)) is not None:
            yield f"{place}: {reason}"


def table(first, second, rows):
    """Returns a table of (step, content) by name, highest step first."""
    lines = [f"| step | {first} | {second} |", "| --- | --- | --- |"]
    highest_first = sorted(rows.items(), key=lambda item: -item[1][0])
    return lines + [f"| {step} | `{name}/` | {content} |" for name, (step, content) in highest_first]


def staircase():
    """Returns a picture of the rooms as a staircase: each step is further to the right than the step below."""
    lines = []
    for step in sorted(set(STEPS.values()), reverse=True):
        names = " ".join(f"{room}/" for room in STEPS if STEPS[room] == step)
        lines.append(f"{step}  {'      ' * step}{names}")
    return ["```text drawing", *lines, "```"]


def table_of_apps():
    lines = ["| library | folder | content | may include |", "| --- | --- | --- | --- |"]
    for name, (content, others) in APPS.items():
        included = ", ".join(f"`{other}/`" for other in others) or "-"
        lines.append(f"| `msstream_{name}` | `apps/{name}/` | {content} | {included} |")
    return lines


def table_of_fronts():
    lines = ["| class | header | task |", "| --- | --- | --- |"]
    return lines + [f"| `{name}` | `{path}` | {task} |" for path, (name, task) in FRONTS.items()]


# The tables of each page. A page has them between the marks that marked() writes.
PAGES = {
    "CONTRIBUTING.md": ("rooms", "families", "apps"),
    "docs/design.md": ("staircase", "rooms", "families", "fronts"),
}
TABLES = {
    "rooms": table("room", "content", ROOMS),
    "families": table("folder of `kernels/`", "content", FAMILIES),
    "apps": table_of_apps(),
    "staircase": staircase(),
    "fronts": table_of_fronts(),
}


def marked(name):
    """Returns the text that a page has for a table, with its marks."""
    return "\n".join([f"<!-- {name}: written by scripts/check_layers.py --fix -->", *TABLES[name], f"<!-- end of {name} -->"])


def with_tables(page, text):
    """Returns the text of a page with its tables as they should be, and the names of those without marks."""
    missing = []
    for name in PAGES[page]:
        found = re.search(rf"<!-- {name}: .*?<!-- end of {name} -->", text, re.DOTALL)
        if found is None:
            missing.append(name)
        else:
            text = text[:found.start()] + marked(name) + text[found.end():]
    return text, missing


def page_violations(root):
    for page in PAGES:
        text = (root / page).read_text(encoding="utf-8") if (root / page).is_file() else ""
        expected, missing = with_tables(page, text)
        for name in missing:
            yield f"{page}: there is no table '{name}' between its marks"
        if expected != text:
            yield f"{page}: a table is not that of scripts/check_layers.py; --fix writes it"


def write_pages(root):
    for page in PAGES:
        text = (root / page).read_text(encoding="utf-8")
        (root / page).write_text(with_tables(page, text)[0], encoding="utf-8")


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
            elif theirs in APPS and theirs != library and theirs not in APPS[library][1]:
                yield f"{place}: apps/{library}/ may not include apps/{theirs}/"
            elif (opening == '"' or theirs in APPS) and f"apps/{name}" not in texts:
                yield f"{place}: there is no apps/{name}"
    graph = {path: ["apps/" + name for _, name in INCLUDE.findall(text) if "apps/" + name in texts]
             for path, text in texts.items()}
    yield from ("includes in a circle: " + " -> ".join(circle) for circle in circles(graph))


def fmt_violations(root):
    """Yields the includes of fmt in public headers and in files that nvcc compiles."""
    for top in FOLDERS:
        for file in sorted((root / top).rglob("*")):
            path = file.relative_to(root).as_posix()
            is_public = top == "include" and file.suffix in SUFFIXES and path not in FMT_HEADERS
            if is_public or file.suffix in (".cu", ".cuh"):
                text = file.read_text(encoding="utf-8")
                for match in INCLUDE.finditer(text):
                    if match.group(2).startswith("fmt/"):
                        line = text.count("\n", 0, match.start(2)) + 1
                        kind = "a public header" if is_public else "a file for nvcc"
                        yield f"{path}:{line}: {kind} may not include {match.group(2)}; call a function of a source instead"


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


def unguarded(graph):
    """Yields the public headers that do not include SAME_LIBRARY, directly or by others."""
    guarded = {}

    def visit(path):
        if path not in guarded:
            guarded[path] = path == SAME_LIBRARY  # of a circle, which is reported anyway
            guarded[path] = guarded[path] or any([visit(target) for target in graph.get(path, ())])
        return guarded[path]

    for path in graph:
        if path.startswith("include/") and "detail" not in Path(path).parts and path != VERSION and not visit(path):
            yield f"{path}:1: reaches no {SAME_LIBRARY}, by which programs with other headers do not link"


def folders_of(graph):
    """Returns which folders of src/ include which others of their room, from the includes of files."""
    folders = {}
    for path, targets in graph.items():
        for target in targets:
            if path.startswith("src/") and target.startswith("src/") and room_of(path) == room_of(target):
                source, included = Path(path).parent.as_posix(), Path(target).parent.as_posix()
                if source != included:
                    folders.setdefault(source, set()).add(included)
    return {folder: sorted(others) for folder, others in folders.items()}


def shared_names(texts):
    """Yields each name that two test files of one room declare at file level; `texts` maps paths to contents."""
    owners = {}
    for path, text in texts.items():
        for match in NAME_IN_FILE.finditer(text):
            name = match.group(1) or match.group(2)
            first = owners.setdefault((Path(path).parts[:2], name), path)
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
             for top in ("include", "src", "kernels", "tests")
             for path in sorted((root / top).rglob("*")) if path.suffix in SUFFIXES}
    if not texts:
        return [f"{root}: no sources found"]
    found = [problem for path in texts for problem in file_violations(root, path, texts)]
    graph = {path: [target for opening, name in INCLUDE.findall(text)
                    if (target := project_file(root, path, opening, name)) in texts]
             for path, text in texts.items()}
    found += ["includes in a circle: " + " -> ".join(circle) for circle in [*circles(graph), *circles(folders_of(graph))]]
    found += unguarded(graph)
    found += app_violations(root)
    found += fmt_violations(root)
    found += shared_names({path: text for path, text in texts.items() if re.match(r"tests/.*_test\.cpp$", path)})
    found += [problem for path, text in texts.items() if path.startswith("tests/") for problem in misnamed_tests(path, text)]
    found += [f"{folder}: {count} files; at most {MOST_FILES}"
              for folder, count in Counter(Path(path).parent.as_posix() for path in texts).items() if count > MOST_FILES]
    return found + list(page_violations(root))


if __name__ == "__main__":
    if "--fix" in sys.argv:
        sys.argv.remove("--fix")
        write_pages(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    sys.exit(report_findings(violations, "layers: every room includes only what it may"))
