# SPDX-License-Identifier: Apache-2.0
"""The common end of the checks of the source tree: findings and status 1, or one line if there are none."""
import sys
from pathlib import Path


def report_findings(violations, sound):
    """Runs violations(root) on the folder that the command line names, by default the repository.
    Prints the findings, or `sound` if there are none, and returns the exit status of the
    program.
    """
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = list(violations(root))
    for line in found:
        print(line, file=sys.stderr)
    if not found:
        print(sound)
    return 1 if found else 0
