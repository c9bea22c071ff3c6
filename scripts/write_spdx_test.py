#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of write_spdx.py."""

import io
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("write_spdx.py")
ROOT = SCRIPT.parent.parent


class WriteSpdx(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_on(self, files):
        """Runs the script on an archive of {path: text}."""
        archive = self.folder / "msstream.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            for path, text in files.items():
                member = tarfile.TarInfo(f"msstream-1.2.3/{path}")
                member.size = len(text.encode())
                tar.addfile(member, io.BytesIO(text.encode()))
        return subprocess.run(
            [sys.executable, "-B", SCRIPT, archive, "--version", "1.2.3", "--created", "2026-01-31T12:00:00Z",
             "--output", self.folder / "bill.json"], capture_output=True, text=True, check=False)  # fmt: skip

    def bill_of(self, files):
        result = self.run_on(files)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads((self.folder / "bill.json").read_text())

    def test_files_have_the_licence_of_the_project(self):
        bill = self.bill_of({"src/a.cpp": "// SPDX-License-Identifier: Apache-2.0\n", "docs/a.md": "text\n"})
        licences = {entry["fileName"]: (entry["licenseConcluded"], entry["licenseInfoInFiles"]) for entry in bill["files"]}
        self.assertEqual(licences, {"./docs/a.md": ("Apache-2.0", ["NOASSERTION"]),
                                    "./src/a.cpp": ("Apache-2.0", ["Apache-2.0"])})

    def test_notices_have_the_licences_of_their_projects(self):
        notices = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "packaging/notices").iterdir()}
        bill = self.bill_of(notices)
        licences = {entry["fileName"]: entry["licenseConcluded"] for entry in bill["files"]}
        self.assertEqual(licences["./packaging/notices/fmt.txt"], "MIT")
        self.assertEqual(licences["./packaging/notices/Eigen.txt"], "MPL-2.0")
        self.assertNotIn("Apache-2.0", licences.values())
        self.assertIn("MPL-2.0", bill["packages"][0]["licenseInfoFromFiles"])

    def test_refuses_other_licences(self):
        for path, text, words in (
            ("src/a.cpp", "// SPDX-License-Identifier: GPL-3.0-only\n", "src/a.cpp: expected the licence Apache-2.0, found GPL"),
            ("a.py", "# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n", "found Apache-2.0 WITH LLVM-exception"),
            ("packaging/notices/other.txt", "Permission is granted\n", "expected it in NOTICES"),
        ):
            result = self.run_on({path: text})
            self.assertEqual(result.returncode, 1)
            self.assertIn(words, result.stderr)
            self.assertFalse((self.folder / "bill.json").exists())

    def test_libraries_have_a_version_and_a_package_url(self):
        libraries = {entry["name"]: entry for entry in self.bill_of({"a": "b"})["packages"][1:]}
        for entry in libraries.values():
            self.assertRegex(entry["versionInfo"], r"^\d[\d.]* or newer$")
            (reference,) = entry["externalRefs"]
            self.assertRegex(reference["referenceLocator"], r"^pkg:(github/[a-z0-9-]+|generic|pypi)/[a-z0-9-]+$")
            self.assertEqual(reference["referenceType"], "purl")
        self.assertIn("CCCL", libraries)
        self.assertIn("PyTorch", libraries)

    def test_versions_are_those_that_the_build_asks_for(self):
        libraries = {entry["name"]: entry["versionInfo"].split()[0] for entry in self.bill_of({"a": "b"})["packages"][1:]}
        asked = "".join((ROOT / path).read_text() for path in
                        ("src/CMakeLists.txt", "cmake/MsstreamTarget.cmake", "benchmarks/CMakeLists.txt"))  # fmt: skip
        for name, package in (("fmt", "fmt"), ("Eigen", "Eigen3"), ("nlohmann-json", "nlohmann_json"),
                              ("Google-Benchmark", "benchmark")):  # fmt: skip
            self.assertEqual(libraries[name], re.search(rf"find_package\({package} ([0-9.]+)", asked)[1])


if __name__ == "__main__":
    unittest.main()
