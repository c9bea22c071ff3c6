# SPDX-License-Identifier: Apache-2.0
"""Tells scikit-build-core the version of the wheel, which scripts/version.sh prints."""

import subprocess
from pathlib import Path


def dynamic_metadata(field, settings):
    """Returns the version, such as 0.1.0, or 0.1.0.dev20261231235959+g0123abcd of a commit that is no release."""
    if field != "version" or settings:
        raise RuntimeError(f"expected the field version without settings, found {field} with {settings}")
    root = Path(__file__).resolve().parents[3]
    # A source distribution of Python says which version it is.
    if (root / "PKG-INFO").is_file():
        for line in (root / "PKG-INFO").read_text(encoding="utf-8").splitlines():
            if line.startswith("Version: "):
                return line.removeprefix("Version: ")
    script = root / "scripts" / "version.sh"
    result = subprocess.run([script], stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{script} failed")
    return result.stdout.strip()
