#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how long files of users take to compile, and checks that against budgets.

scripts/compile_benchmark.py [--runs N]

Compiles files that users of msstream would write, and prints a table with a row for each file:

  s            processor seconds, user and system together, of the compiler and all of its processes: the median of
               N runs. Other programs on the machine change this number less than the time on the clock.
  / yardstick  s, divided by the seconds of benchmarks/compile/yardstick.cpp, an ordinary file of the standard
               library, at -O3. Every run compiles the yardstick beside the files. Seconds differ between machines;
               this ratio hardly does, so the budgets are ratios.
  MB           peak memory of the largest process, in units of 2^20 bytes: the largest of the runs.
  lines        lines after preprocessing (g++ -E -P), the same on every machine.

A number is followed by the most that it may be. If a number exceeds this budget, a sentence names the file and the
budget, and the exit status is 1. What to do then:

  - A change that was not meant to add to users' files has probably added an #include to a public header.
    Compare `g++ -std=c++20 -DMSSTREAM_CUDA=0 -Iinclude -H -fsyntax-only FILE` before and after it; -ftime-report
    shows the phases of the compiler.
  - An intended addition raises the budget in ROWS of this script, in the same commit, which says why.

The compiler is $CXX, by default g++. The budgets were set with g++ 12 and CUDA 13.0; with a compiler other than g++ 12
the table is printed and nothing is checked. The .cu file is left out if there is no nvcc.
"""
import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
YARDSTICK = "benchmarks/compile/yardstick.cpp"
COMPILER_OF_BUDGETS = "g++ 12"
FLAGS = ["-std=c++20", "-Iinclude", "-c"]
HOST = ["-DMSSTREAM_CUDA=0"]
CUDA = ["-DMSSTREAM_CUDA=1", "-arch=sm_90"]


@dataclass(frozen=True)
class Row:
    """A file that is compiled, and the most time and memory that its compilation may take."""

    source: str
    level: str  # of optimisation
    ratio: float  # the budget of processor time, in yardsticks
    megabytes: int  # the budget of memory

    @property
    def name(self):
        return f"{self.source} {self.level}"

    @property
    def needs_nvcc(self):
        return self.source.endswith(".cu")


@dataclass(frozen=True)
class Use:
    """The processor time and the peak memory that one compilation took."""

    seconds: float
    megabytes: float


# The budgets of quickstart.cpp at -O3 and of the lines are goals. At -O0 the budgets of quickstart.cpp
# are 1.15 times, and all others 1.25 times, what was measured when they were set.
ROWS = [
    Row("examples/quickstart/quickstart.cpp", "-O3", 0.90, 450),
    Row("examples/quickstart/quickstart.cpp", "-O0", 0.65, 350),
    Row("examples/teach/own_kernel.cpp", "-O3", 0.80, 385),
    Row("examples/teach/own_kernel.cpp", "-O0", 0.60, 360),
    Row("benchmarks/compile/own_kernel.cu", "-O3", 0.90, 490),
]
# The headers that a user's header includes if it declares an operation with issue().
HEADERS = ("msstream/tensor/tensor.hpp", "msstream/tensor/issue.hpp")
HEADERS_NAME = "tensor.hpp and issue.hpp"
MOST_LINES = 45_000


def measure(command, folder=ROOT):
    """Runs a command and returns its Use. Raises ValueError with the command's messages if it fails."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        # The usage that wait4() returns includes all processes that the command waited for: a
        # compiler runs its passes as processes of their own.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            output.seek(0)
            messages = output.read(4000).decode(errors="replace")  # the first errors explain the rest
            raise ValueError(f"{' '.join(command)} failed with status {process.returncode}:\n{messages}")
    return Use(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def compile_command(source, level, cxx, nvcc, out):
    if source.endswith(".cu"):
        return [nvcc, level, *FLAGS, *CUDA, source, "-o", out]
    return [cxx, level, *FLAGS, *HOST, source, "-o", out]


def preprocess(cxx, text, *options):
    """Returns what the preprocessor makes of a file with the text, in the host build of a user."""
    command = [cxx, "-std=c++20", "-Iinclude", *HOST, "-E", *options, "-x", "c++", "-"]
    return subprocess.run(command, cwd=ROOT, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout


def lines_of_headers(cxx):
    """Returns the number of lines of a file that includes HEADERS and nothing else."""
    return preprocess(cxx, "".join(f"#include <{header}>\n" for header in HEADERS), "-P").count("\n")


def summary_of(uses):
    """Returns the median of the seconds and the largest of the megabytes."""
    return Use(statistics.median(use.seconds for use in uses), max(use.megabytes for use in uses))


def compiler_name(macros):
    """Returns the compiler and its major version, for example "g++ 12", from the macros that it defines."""
    for name, macro in (("clang", "__clang_major__"), ("g++", "__GNUC__")):
        if found := re.search(rf"^#define {macro} (\d+)$", macros, re.MULTILINE):
            return f"{name} {found.group(1)}"
    return "an unknown compiler"


def findings(used, yardstick, lines):
    """Yields a sentence for each budget that is exceeded. `used` has the Use of each row that was compiled."""
    for row, use in used.items():
        ratio = use.seconds / yardstick.seconds
        if ratio > row.ratio:
            yield (f"{row.name} takes {ratio:.2f} of the yardstick's processor time ({use.seconds:.2f} of "
                   f"{yardstick.seconds:.2f} s), more than its budget of {row.ratio:.2f}")
        if use.megabytes > row.megabytes:
            yield f"{row.name} takes {use.megabytes:.0f} MB, more than its budget of {row.megabytes} MB"
    if lines > MOST_LINES:
        yield f"a file with only {HEADERS_NAME} has {lines:,} lines, more than the budget of {MOST_LINES:,}"


def table(used, yardstick, lines):
    """Formats the results as a Markdown table, each number that has a budget with the budget."""
    def cells(name, use, ratio_budget="", memory_budget=""):
        return [name, f"{use.seconds:.2f}", f"{use.seconds / yardstick.seconds:.2f}{ratio_budget}",
                f"{use.megabytes:.0f}{memory_budget}", ""]

    rows = [["file", "s", "/ yardstick", "MB", "lines"],
            cells("the yardstick -O3", yardstick),
            *(cells(row.name, use, f" (at most {row.ratio:.2f})", f" ({row.megabytes})") for row, use in used.items()),
            [f"only {HEADERS_NAME}", "", "", "", f"{lines:,} ({MOST_LINES:,})"]]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    texts = ["| " + " | ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                               for column, (cell, width) in enumerate(zip(row, widths))) + " |" for row in rows]
    return "\n".join([texts[0], "| --- |" + " ---: |" * (len(rows[0]) - 1), *texts[1:]])


def find_nvcc():
    folder = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin"
    return shutil.which("nvcc") or shutil.which("nvcc", path=folder)


def measure_all(runs, cxx, nvcc):
    """Returns the Use of the yardstick and of each row. Compiles every file once, then again, so that a change in
    the speed of the machine meets all of them."""
    compiled = [row for row in ROWS if nvcc or not row.needs_nvcc]
    uses = {row: [] for row in (None, *compiled)}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            for row, taken in uses.items():
                source, level = (row.source, row.level) if row else (YARDSTICK, "-O3")
                taken.append(measure(compile_command(source, level, cxx, nvcc, str(Path(folder) / "compiled.o"))))
    yardstick = summary_of(uses.pop(None))
    return yardstick, {row: summary_of(taken) for row, taken in uses.items()}


def runs_of(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)


def parse_arguments(arguments):
    title, _, rest = __doc__.partition("\n\n")
    usage, _, teaching = rest.partition("\n\n")
    parser = argparse.ArgumentParser(usage=usage, description=title, epilog=teaching,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=runs_of, default=3, metavar="N",
                        help="how often each file is compiled; 3 by default")
    return parser.parse_args(arguments)


def main():
    options = parse_arguments(sys.argv[1:])
    cxx, nvcc = os.environ.get("CXX", "g++"), find_nvcc()
    try:
        name = compiler_name(preprocess(cxx, "", "-dM"))
        yardstick, used = measure_all(options.runs, cxx, nvcc)
        lines = lines_of_headers(cxx)
    except (OSError, ValueError, subprocess.CalledProcessError) as problem:
        sys.exit(f"compile_benchmark: {problem}")
    print(table(used, yardstick, lines))
    if not nvcc:
        print("compile_benchmark: no nvcc, so the .cu file is left out")
    if name != COMPILER_OF_BUDGETS:
        print(f"compile_benchmark: the budgets were set with {COMPILER_OF_BUDGETS} and are not checked with {name}")
        return 0
    exceeded = list(findings(used, yardstick, lines))
    for sentence in exceeded:
        print(f"compile_benchmark: {sentence}", file=sys.stderr)
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
