#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the checks of doctor_on_gpu.py with made-up reports."""
import unittest

from doctor_on_gpu import MEASURED, OF_DEVICE, ONCE, mistakes


def report_of(gpus=1):
    """Returns a report without mistakes."""
    def line(section, name, number=None):
        made = {"section": section, "id": name, "level": "ok", "thing": name, "value": "x", "advice": ""}
        return made if number is None else {**made, "number": number}

    lines = [line("host", name) for name in ONCE]
    lines += [line("device", name) for name in OF_DEVICE] * gpus
    lines += [line("device_measured", name, max(least, min(50, most))) for name, (least, most) in MEASURED.items()]
    lines += [line("device_measured", "peer", 100)] * (gpus - 1)
    return {"build": "cuda", "device": 0, "lines": lines,
            "summary": {"ok": len(lines), "note": 0, "slow": 0, "bad": 0}}


class Mistakes(unittest.TestCase):
    def test_a_good_report_has_none(self):
        self.assertEqual(list(mistakes(report_of())), [])
        self.assertEqual(list(mistakes(report_of(gpus=4))), [])

    def test_missing_and_implausible_lines_are_named(self):
        report = report_of(gpus=2)
        del report["lines"][0]
        report["summary"]["ok"] -= 1
        next(line for line in report["lines"] if line["id"] == "launch")["number"] = 5000
        next(line for line in report["lines"] if line["id"] == "kernel-overlap")["number"] = 1
        found = " ".join(mistakes(report))
        for part in (ONCE[0], "launch: expected", "kernels of two streams"):
            self.assertIn(part, found)

    def test_a_level_needs_advice_and_the_summary_counts(self):
        report = report_of()
        report["lines"][3]["level"] = "slow"
        found = " ".join(mistakes(report))
        self.assertIn("without advice", found)
        self.assertIn("the summary has", found)

    def test_a_build_for_the_host_is_refused(self):
        report = report_of()
        report["build"] = "host"
        self.assertEqual(len(list(mistakes(report))), 1)


if __name__ == "__main__":
    unittest.main()
