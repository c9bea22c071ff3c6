#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds the Arrow C++ libraries inside PyPI's package pyarrow: scripts/find_arrow.py [--install FOLDER].

Prints the folder of the headers, the library Arrow and the library Parquet, apart by semicolons, as the CMake option
MSSTREAM_ARROW takes them:

    cmake --preset host -D MSSTREAM_ARROW="$(scripts/find_arrow.py)"

With --install, installs pyarrow into a virtual environment in FOLDER first, unless it is there. Otherwise looks in the
Python that runs the script. Ends with status 1 and a message if there is no pyarrow, or none with headers.
"""
import argparse
import subprocess
import sys
import venv
from pathlib import Path


def package_of(python):
    """Returns the folder of pyarrow in a Python; None without it."""
    # Looks for the package without importing it, which would load its libraries.
    code = "import importlib.util as u; s = u.find_spec('pyarrow'); print(s.submodule_search_locations[0] if s else '')"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False).stdout.strip()
    return Path(found) if found else None


def parts_of(package):
    """Returns the headers and libraries of pyarrow as one text; None if one of them is missing."""
    include = package / "include"
    if not (include / "parquet/arrow/reader.h").is_file():
        return None
    libraries = []
    for name in ("libarrow", "libparquet"):
        # The names end with the version, such as libarrow.so.2600.
        found = sorted(path for path in package.glob(f"{name}.so*") if path.is_file())
        if not found:
            return None
        libraries.append(found[0])
    return ";".join(str(path) for path in (include, *libraries))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--install", metavar="FOLDER", help="install pyarrow into a virtual environment there")
    options = parser.parse_args()
    python = sys.executable
    if options.install:
        python = str(Path(options.install).absolute() / "bin/python")
        if package_of(python) is None if Path(python).exists() else True:
            venv.create(options.install, with_pip=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", "pyarrow"], check=True, stdout=sys.stderr)
    package = package_of(python)
    parts = parts_of(package) if package else None
    if parts is None:
        sys.exit(f"find_arrow: {'no pyarrow in ' + python if package is None else f'{package} has no headers or libraries'}")
    print(parts)


if __name__ == "__main__":
    main()
