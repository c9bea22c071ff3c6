# SPDX-License-Identifier: Apache-2.0
"""Says where the C++ library msstream is installed. `python -m msstream --help` lists the folders."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _version_of
from pathlib import Path

__all__ = ["__version__", "cmake_dir", "include_dir", "pkgconfig_dir", "prefix"]


def _version():
    for distribution in ("msstream", "msstream-cu13"):
        try:
            return _version_of(distribution)
        except PackageNotFoundError:
            pass
    raise PackageNotFoundError("msstream is installed neither as msstream nor as msstream-cu13")


__version__ = _version()


def prefix():
    """Returns the folder to add to CMAKE_PREFIX_PATH."""
    return str(Path(__file__).resolve().parent)


def cmake_dir():
    """Returns the folder with msstream-config.cmake, for the CMake variable msstream_DIR."""
    return str(Path(prefix(), "lib", "cmake", "msstream"))


def include_dir():
    """Returns the folder with the headers, which are included as <msstream/msstream.hpp>."""
    return str(Path(prefix(), "include"))


def pkgconfig_dir():
    """Returns the folder with msstream.pc, for the variable PKG_CONFIG_PATH."""
    return str(Path(prefix(), "lib", "pkgconfig"))
