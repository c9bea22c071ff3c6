#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of run.sh and train.sh, with a CMake that builds nothing; and the pages run only programs that there are."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from check_snippets import pages_of

ROOT = Path(__file__).resolve().parents[1]
# Writes its arguments to a file, and in place of a program a script that prints the program's arguments.
CMAKE = """#!/usr/bin/env bash
root=${0%/bin/cmake}
echo "$*" >>"$root/calls"
[ "$1" = --build ] || exit 0
for target in "$@"; do :; done
folder=$(cat "$root/folder")
mkdir -p "$root/build/host/examples/$folder"
printf '#!/bin/sh\\necho %s "$@"\\n' "$target" >"$root/build/host/examples/$folder/$target"
chmod +x "$root/build/host/examples/$folder/$target"
"""


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        (self.root / "scripts").mkdir()
        for name in ("common.sh", "run.sh", "train.sh"):
            shutil.copy(ROOT / "scripts" / name, self.root / "scripts" / name)
        for path in [*ROOT.glob("examples/*/CMakeLists.txt"), *ROOT.glob("examples/models/*.cpp")]:
            to = self.root / path.relative_to(ROOT)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)
        (self.root / "build/host").mkdir(parents=True)
        (self.root / "build/host/build.ninja").touch()
        (self.root / "bin").mkdir()
        (self.root / "bin/cmake").write_text(CMAKE)
        (self.root / "bin/cmake").chmod(0o755)
        # All packages are there, and none can be installed.
        for tool, line in (("dpkg-query", "echo install ok installed"), ("apt-get", "exit 1"), ("sudo", "exit 1")):
            (self.root / "bin" / tool).write_text(f"#!/bin/sh\n{line}\n")
            (self.root / "bin" / tool).chmod(0o755)

    def run_script(self, *words, folder="none"):
        (self.root / "folder").write_text(folder)
        environment = {**os.environ, "MSSTREAM_BUILD_PRESET": "host", "PATH": f"{self.root}/bin:{os.environ['PATH']}"}
        return subprocess.run([self.root / "scripts" / words[0], *words[1:]], capture_output=True, text=True,
                              env=environment, check=False)

    def calls(self):
        return (self.root / "calls").read_text().splitlines() if (self.root / "calls").exists() else []

    def test_builds_the_named_program_alone_and_runs_it(self):
        for program, folder in (("teach_two_streams", "teach"), ("quickstart", "quickstart"), ("dlrm", "models"),
                                ("train_ple", "train_ple")):
            with self.subTest(program):
                (self.root / "calls").unlink(missing_ok=True)
                done = self.run_script("run.sh", program, "--steps", "2 3", folder=folder)
                self.assertEqual((done.returncode, done.stdout), (0, f"{program} --steps 2 3\n"), done.stderr)
                self.assertEqual(len(self.calls()), 1)
                self.assertTrue(self.calls()[0].endswith(f"--target {program}"), self.calls())

    def test_train_runs_train_wdl_unless_a_program_is_named(self):
        for words, printed in (((), "train_wdl"), (("--epochs", "3"), "train_wdl --epochs 3")):
            self.assertEqual(self.run_script("train.sh", *words, folder="train_wdl").stdout, printed + "\n")
        self.assertEqual(self.run_script("train.sh", "train_ple", "--waits", folder="train_ple").stdout, "train_ple --waits\n")

    def test_a_fresh_build_folder_gets_no_tests(self):
        (self.root / "build/host/build.ninja").unlink()
        self.run_script("run.sh", "quickstart", folder="quickstart")
        configured = [call for call in self.calls() if "--preset host" in call]
        self.assertEqual(len(configured), 1)
        self.assertIn("MSSTREAM_BUILD_TESTS=OFF", configured[0])

    def configured_with_overlap(self, *words):
        """Runs a program, and returns whether a build was configured with reports on overlap; None if none was."""
        (self.root / "calls").unlink(missing_ok=True)
        self.assertEqual(self.run_script("run.sh", "train_ple", *words, folder="train_ple").returncode, 0)
        values = [re.findall(r"MSSTREAM_PROGRAMS_WITH_OVERLAP=(\w+)", call)[-1] for call in self.calls() if "--preset host" in call]
        return {(): None, ("ON",): True, ("OFF",): False}[tuple(values)]

    def test_a_fresh_build_folder_is_made_in_little_time(self):
        (self.root / "build/host/build.ninja").unlink()
        self.assertIs(self.configured_with_overlap("--epochs", "2"), False)
        self.assertIn("MSSTREAM_IN_A_HURRY=ON", self.calls()[0])
        self.assertIs(self.configured_with_overlap("--overlap", "why.html"), True)
        self.assertIs(self.configured_with_overlap("--overlap=why.html"), True)

    def test_reports_on_overlap_are_built_when_a_program_is_asked_for_one(self):
        cache = self.root / "build/host/CMakeCache.txt"
        cache.write_text("MSSTREAM_PROGRAMS_WITH_OVERLAP:BOOL=OFF\n")
        self.assertIs(self.configured_with_overlap("--epochs", "2"), None)
        self.assertIs(self.configured_with_overlap("--overlap", "why.html"), True)
        cache.write_text("MSSTREAM_PROGRAMS_WITH_OVERLAP:BOOL=ON\n")
        self.assertIs(self.configured_with_overlap("--overlap", "why.html"), None)

    def test_an_unknown_program_is_named_and_nothing_is_built(self):
        for script in ("run.sh", "train.sh"):
            done = self.run_script(script, "teach_nothing")
            self.assertEqual((done.returncode, self.calls()), (1, []))
            self.assertIn("there is no program 'teach_nothing'", done.stderr)
        self.assertIn("name a program", self.run_script("run.sh").stderr)

    def test_the_pages_run_programs_that_there_are(self):
        listed = self.run_script("run.sh", "--help").stdout.split("\n\n")[-1].split()
        self.assertIn("teach_why_no_overlap", listed)
        self.assertIn("din", listed)
        for page in pages_of(ROOT):
            for script, word in re.findall(r"scripts/(run|train)\.sh (\w+)", page.read_text(encoding="utf-8")):
                if (script, word) != ("run", "PROGRAM"):
                    self.assertIn(word, listed, page)


if __name__ == "__main__":
    unittest.main()
