# SPDX-License-Identifier: Apache-2.0
"""How the checks of the tree end: what they find on standard error and status 1, or a line that says what holds."""
import sys
from pathlib import Path


def report_findings(violations, sound):
    """Runs violations(root) on the folder that the command line names, else on the repository; the status of the program."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = list(violations(root))
    for line in found:
        print(line, file=sys.stderr)
    if not found:
        print(sound)
    return 1 if found else 0
