#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a clang, clang++-14 unless another is named, compiles the library without warnings.

  scripts/check_clang.py [COMPILER]

g++ accepts code that clang refuses, and users build with both. Reads how files are compiled from
build/host/compile_commands.json, and generates no code. The parts of nightly.sh with sanitizers
compile programs and tests with clang."""

import argparse
import json
import multiprocessing.pool
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLAGS = ["-fsyntax-only", "-Werror", "-Wno-unknown-warning-option", "-Wno-unused-command-line-argument"]
OF_GCC = ("--param", "-femit-class-debug-always")


def is_checked(entry):
    """Returns whether an entry of the database is code of the library. The archive for the tests is
    the library once more."""
    words = shlex.split(entry["command"])
    output = words[words.index("-o") + 1]
    return output.startswith("src/") and "msstream_switched.dir" not in output


def options_of(compiler):
    """Returns the options that a compiler needs beside those of the database."""
    major = int(subprocess.run([compiler, "-dumpversion"], capture_output=True, text=True, check=True).stdout.split(".")[0])
    return ["-include", str(ROOT / "tests/clang_14.hpp")] if major < 16 else []


def words_of(entry, compiler, options):
    """Returns the command that checks the file of an entry."""
    words = shlex.split(entry["command"])
    first = next(i for i, word in enumerate(words) if word.startswith("-"))
    kept = [word for word in words[first:] if not word.startswith(OF_GCC)]
    output = kept.index("-o")
    del kept[output : output + 2]
    return [compiler, *FLAGS, *options, *kept]


def check(words, entry):
    """Returns what a command says about the file of an entry; nothing if it accepts it."""
    done = subprocess.run(words, cwd=entry["directory"], capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("compiler", nargs="?", default="clang++-14", help="such as clang++-19")
    compiler = parser.parse_args().compiler
    if shutil.which(compiler) is None:
        sys.exit(f"no {compiler}")
    options = options_of(compiler)
    database = ROOT / "build/host/compile_commands.json"
    if not database.exists():  # as where the tests are built for a GPU
        subprocess.run(["cmake", "--preset", "host"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    entries = [entry for entry in json.loads(database.read_text()) if is_checked(entry)]
    if not entries:
        sys.exit(f"{database}: no file of src/")
    with multiprocessing.pool.ThreadPool(os.cpu_count()) as pool:
        complaints = [text for text in pool.imap(lambda entry: check(words_of(entry, compiler, options), entry), entries)
                      if text]
    print("\n".join(complaints), end="")
    if complaints:
        sys.exit(f"{compiler}: complaints about {len(complaints)} of {len(entries)} files")
    print(f"{compiler}: no complaint about {len(entries)} files")


if __name__ == "__main__":
    main()
