#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests scripts/version.sh and release.sh, in small clones that have their files and a project(msstream VERSION …)."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
UNRELEASED = "# Changelog\n\n## Unreleased (1.2.3)\n"
RELEASED = "# Changelog\n\n## 1.2.3 (2030-01-02)\n"
DAY = "2030-01-02T03:04:05Z"


class Version(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.sources = Path(folder.name)
        (self.sources / "scripts").mkdir()
        for script in ("common.sh", "version.sh", "release.sh", "write_spdx.py"):
            shutil.copy(SCRIPTS / script, self.sources / "scripts" / script)
        self.write("CMakeLists.txt", "project(msstream VERSION 1.2.3 LANGUAGES CXX)\n")
        self.write("CHANGELOG.md", UNRELEASED)

    def write(self, file, text):
        (self.sources / file).write_text(text, encoding="utf-8")

    def git(self, *arguments):
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
                       "GIT_AUTHOR_DATE": DAY, "GIT_COMMITTER_DATE": DAY, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "b",
                       "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "b"}
        return subprocess.run(["git", "-C", self.sources, *arguments], env=environment, check=True, capture_output=True,
                              text=True).stdout.strip()

    def commit(self, changelog):
        self.write("CHANGELOG.md", changelog)
        self.git("init", "--quiet")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "one")
        return self.git("rev-parse", "HEAD")[:8]

    def run_script(self, script, *options):
        return subprocess.run([self.sources / "scripts" / script, *options], check=False, capture_output=True, text=True,
                              env={**os.environ, "TZ": "Asia/Tokyo"})

    def ask(self, *options):
        return self.run_script("version.sh", *options)

    def expect(self, python, debian, time):
        self.assertEqual(self.ask().stdout, python + "\n")
        self.assertEqual(self.ask("--debian").stdout, debian + "\n")
        self.assertEqual(self.ask("--time").stdout, time + "\n")

    def test_a_commit_without_tag_is_a_development_version(self):
        for changelog in (UNRELEASED, RELEASED + "\n"):
            name = self.commit(changelog)
            self.expect(f"1.2.3.dev20300102030405+g{name}", f"1.2.3~git20300102030405.{name}", "1893553445")

    def test_a_tag_of_another_version_is_no_release(self):
        name = self.commit(RELEASED)
        self.git("tag", "v1.2.30")
        self.assertEqual(self.ask().stdout, f"1.2.3.dev20300102030405+g{name}\n")

    def test_a_tag_and_a_dated_heading_are_a_release(self):
        self.commit(RELEASED)
        self.git("tag", "v1.2.3")
        self.expect("1.2.3", "1.2.3", "1893553445")

    def test_a_tag_without_a_dated_heading_is_refused(self):
        self.commit(UNRELEASED)
        self.git("tag", "v1.2.3")
        result = self.ask()
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stdout, "")
        self.assertIn("no heading such as: ## 1.2.3 (2026-12-31)", result.stderr)

    def test_changes_make_a_release_a_development_version(self):
        name = self.commit(RELEASED)
        self.git("tag", "v1.2.3")
        self.write("another.cpp", "")
        self.expect(f"1.2.3.dev20300102030405+g{name}.changed", f"1.2.3~git20300102030405.{name}.changed", "1893553445")
        self.assertEqual(self.ask("--commit", "HEAD").stdout, "1.2.3\n")

    def test_the_option_commit_needs_a_commit_of_the_clone(self):
        self.commit(RELEASED)
        self.git("tag", "v1.2.3")
        self.write("another.cpp", "")
        for script in ("version.sh", "release.sh"):
            for options, message in ((["--commit"], "--commit: expected a commit after it"),
                                     (["--commit", ""], "--commit: expected a commit after it"),
                                     (["--commit", "nowhere"], "found nowhere")):
                result = self.run_script(script, *options)
                self.assertEqual((result.returncode, result.stdout), (1, ""), f"{script} {options}")
                self.assertIn(message, result.stderr, f"{script} {options}")
        self.assertEqual(self.ask("--commit", "v1.2.3").stdout, "1.2.3\n")
        folder = self.sources / "files"
        self.assertEqual(self.run_script("release.sh", "--commit", "v1.2.3", folder).stdout,
                         f"{folder}/msstream-1.2.3.tar.gz\n")

    def test_sources_without_git_have_the_version_of_their_file(self):
        self.expect("1.2.3.dev0", "1.2.3~dev0", "")
        self.write("VERSION", "1.2.3.dev5+gabc 1.2.3~git5.abc 77\n")
        self.expect("1.2.3.dev5+gabc", "1.2.3~git5.abc", "77")
        self.assertNotEqual(self.ask("--commit", "HEAD").returncode, 0)

    def test_the_clone_of_another_project_does_not_count(self):
        inner = self.sources / "third_party" / "msstream"
        inner.mkdir(parents=True)
        self.git("init", "--quiet")
        for name in ("scripts", "CMakeLists.txt", "CHANGELOG.md"):
            shutil.move(self.sources / name, inner / name)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "one")
        self.sources = inner
        self.assertEqual(self.ask().stdout, "1.2.3.dev0\n")


if __name__ == "__main__":
    unittest.main()
