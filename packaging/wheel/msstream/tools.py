# SPDX-License-Identifier: Apache-2.0
"""Starts the tools of the wheel. The tools replace the Python process."""

import os
import sys

import msstream


def _start(tool):
    program = os.path.join(msstream.prefix(), "bin", tool)
    if tool == "msstream-memory":  # a Python program, run by this interpreter
        os.execv(sys.executable, [sys.executable, program, *sys.argv[1:]])
    os.execv(program, [tool, *sys.argv[1:]])


def overlap():
    """Runs msstream-overlap."""
    _start("msstream-overlap")


def memory():
    """Runs msstream-memory."""
    _start("msstream-memory")


def doctor():
    """Runs msstream-doctor."""
    _start("msstream-doctor")
