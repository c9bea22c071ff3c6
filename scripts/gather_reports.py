#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collects the reports ROW.N.json of repeated runs in one file, which keeps its reports of other rows.

The samples taken during a run are reduced to their extremes, except for runs of a minute or longer.
"""
import argparse
import datetime
import json
import os
from pathlib import Path

LONG_S = 60


def read_report(path):
    report = json.loads(path.read_text(encoding="utf-8"))
    parts = [report.get(key, {}) for key in ("result", "baseline")] + report.get("sweep", [])
    for part in parts:
        if part.get("seconds", 0) < LONG_S:
            part.pop("samples", None)
    return report


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("reports", nargs="+", type=Path)
    for name in ("device", "driver", "commit"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    gathered = json.loads(options.out.read_text(encoding="utf-8")) if options.out.is_file() else {"rows": {}}
    gathered["context"] = {"device": options.device, "driver": options.driver, "commit": options.commit,
                           "cpu": cpu_name(), "num_cpus": os.cpu_count(),
                           "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}
    rows = {}
    for path in sorted(options.reports):
        rows.setdefault(path.name.split(".")[0], []).append(read_report(path))
    gathered["rows"] |= rows
    options.out.write_text(json.dumps(gathered, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
