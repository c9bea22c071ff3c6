# SPDX-License-Identifier: Apache-2.0
"""Says where the C++ library msstream is installed. `python -m msstream --help` lists the folders."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _version_of
from pathlib import Path

__all__ = ["__version__", "cmake_dir", "doc_dir", "include_dir", "pkgconfig_dir", "prefix", "variant"]

# The variant that each wheel has. They have the same files, so that one overwrites the other.
_VARIANTS = {"msstream": "host", "msstream-cu12": "cu12", "msstream-cu13": "cu13"}


def _installed():
    versions = {}
    for distribution in _VARIANTS:
        try:
            versions[distribution] = _version_of(distribution)
        except PackageNotFoundError:
            pass
    if len(versions) > 1:
        raise ImportError(f"the wheels {' and '.join(versions)} are installed and have overwritten each other's files: "
                          f"run `pip uninstall {' '.join(versions)}`, and install one of them")
    for distribution, version in versions.items():
        return _VARIANTS[distribution], version
    raise ImportError(f"no wheel of msstream is installed: expected one of {', '.join(_VARIANTS)}")


_variant, __version__ = _installed()


def variant():
    """Returns 'host' if the library has the host runtime alone, 'cu12' or 'cu13' if it has that of CUDA 12 or 13 too."""
    return _variant


def prefix():
    """Returns the folder to add to CMAKE_PREFIX_PATH."""
    return str(Path(__file__).resolve().parent)


def cmake_dir():
    """Returns the folder with msstream-config.cmake, for the CMake variable msstream_DIR."""
    return str(Path(prefix(), "lib", "cmake", "msstream"))


def doc_dir():
    """Returns the folder with README.md, the folder docs with the pages, and examples/quickstart."""
    return str(Path(prefix(), "share", "doc", "msstream"))


def include_dir():
    """Returns the folder with the headers, which are included as <msstream/msstream.hpp>."""
    return str(Path(prefix(), "include"))


def pkgconfig_dir():
    """Returns the folder with msstream.pc, for the variable PKG_CONFIG_PATH."""
    return str(Path(prefix(), "lib", "pkgconfig"))
