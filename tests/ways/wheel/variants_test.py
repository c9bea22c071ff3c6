#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests what the Python package says of the wheels that are installed. Folders with descriptions of them stand for the
wheels."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[3] / "packaging" / "wheel"


def ask(installed, *options):
    """Returns the result of `python -m msstream` with the options, where the named wheels are installed."""
    with tempfile.TemporaryDirectory() as folder:
        for distribution in installed:
            description = Path(folder, f"{distribution.replace('-', '_')}-1.2.3.dist-info")
            description.mkdir()
            (description / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2.3\n",
                                                  encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE), folder])}
        return subprocess.run([sys.executable, "-B", "-m", "msstream", *options], env=environment, capture_output=True,
                              text=True, check=False)


class Variants(unittest.TestCase):
    def test_one_wheel(self):
        for distribution, variant in (("msstream", "host"), ("msstream-cu12", "cu12"), ("msstream-cu13", "cu13")):
            self.assertEqual(ask([distribution], "--variant").stdout, variant + "\n")
            self.assertEqual(ask([distribution], "--version").stdout, "1.2.3\n")

    def test_several_are_refused(self):
        for wheels in (["msstream", "msstream-cu13"], ["msstream-cu12", "msstream-cu13"],
                       ["msstream", "msstream-cu12", "msstream-cu13"]):
            result = ask(wheels, "--cmake-dir")
            self.assertNotEqual(result.returncode, 0)
            self.assertEqual(result.stdout, "")
            self.assertIn(f"run `pip uninstall {' '.join(wheels)}`, and install one of them", result.stderr)

    def test_none_is_refused(self):
        result = ask([], "--variant")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("expected one of msstream, msstream-cu12, msstream-cu13", result.stderr)


if __name__ == "__main__":
    unittest.main()
