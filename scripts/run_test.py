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
program=$2/examples/$folder/$target
mkdir -p "$(dirname "$program")"
printf '#!/bin/sh\\necho %s "$@"\\n' "$target" >"$program"
chmod +x "$program"
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

    def run_script(self, *words, folder="none", preset="host", **variables):
        (self.root / "folder").write_text(folder)
        environment = {**os.environ, "MSSTREAM_BUILD_PRESET": preset, "PATH": f"{self.root}/bin:{os.environ['PATH']}"}
        for name in ("MSSTREAM_OVERLAP", "MSSTREAM_IN_A_HURRY"):
            environment.pop(name, None)
        environment.update(variables)
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

    def configured_with_overlap(self, *words, **variables):
        """Runs a program, and returns whether a build was configured with reports on overlap; None if none was."""
        (self.root / "calls").unlink(missing_ok=True)
        self.assertEqual(self.run_script("run.sh", "train_ple", *words, folder="train_ple", **variables).returncode, 0)
        values = [re.findall(r"MSSTREAM_PROGRAMS_WITH_OVERLAP=(\w+)", call)[-1] for call in self.calls()
                  if not call.startswith("--build")]
        return {(): None, ("ON",): True, ("OFF",): False}[tuple(values)]

    def test_a_fresh_build_folder_is_made_in_little_time(self):
        (self.root / "build/host/build.ninja").unlink()
        self.assertIs(self.configured_with_overlap("--epochs", "2"), False)
        self.assertIn("MSSTREAM_IN_A_HURRY=ON", self.calls()[0])
        self.assertIs(self.configured_with_overlap("--overlap", "why.html"), True)
        self.assertIs(self.configured_with_overlap("--overlap=why.html"), True)
        self.assertIs(self.configured_with_overlap(MSSTREAM_OVERLAP="why.html"), True)
        self.assertIs(self.configured_with_overlap(MSSTREAM_OVERLAP=""), False)

    def test_reports_on_overlap_are_built_when_a_program_is_asked_for_one(self):
        cache = self.root / "build/host/CMakeCache.txt"
        cache.write_text("MSSTREAM_PROGRAMS_WITH_OVERLAP:BOOL=OFF\n")
        self.assertIs(self.configured_with_overlap("--epochs", "2"), None)
        for words, variables in ((("--overlap", "why.html"), {}), ((), {"MSSTREAM_OVERLAP": "why.html"})):
            self.assertIs(self.configured_with_overlap(*words, **variables), True)
            # A preset would set the other options, and so add the tests.
            self.assertEqual(self.calls()[0], f"-D MSSTREAM_PROGRAMS_WITH_OVERLAP=ON {self.root.resolve()}/build/host")
        cache.write_text("MSSTREAM_PROGRAMS_WITH_OVERLAP:BOOL=ON\n")
        self.assertIs(self.configured_with_overlap("--overlap", "why.html"), None)

    def test_a_hurried_build_is_named_on_cuda_and_beside_the_help(self):
        (self.root / "build/cuda").mkdir()
        (self.root / "build/cuda/build.ninja").touch()
        for preset, word, hurry, told in (("cuda", "--steps", "ON", 1), ("cuda", "--help", "ON", 1), ("host", "--help", "ON", 1),
                                          ("host", "--steps", "ON", 0), ("cuda", "--steps", "OFF", 0), ("host", "--help", "OFF", 0)):
            with self.subTest(preset=preset, word=word, hurry=hurry):
                (self.root / f"build/{preset}/CMakeCache.txt").write_text(f"MSSTREAM_IN_A_HURRY:BOOL={hurry}\n")
                done = self.run_script("run.sh", "train_ple", word, folder="train_ple", preset=preset)
                self.assertEqual((done.returncode, done.stdout), (0, f"train_ple {word}\n"), done.stderr)
                self.assertEqual(done.stderr.count(f"build/{preset} is hurried"), told, done.stderr)

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
