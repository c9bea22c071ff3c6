#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the Debian packages of shared libraries and of archives, with a stand-in for the library.

Configures, builds and packs tests/ways/deb by the project's own files. Exits with 77 if a tool of Debian is missing.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
VERSION = "0.1.0~git20301231235959.0123abcd"


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], check=False, capture_output=True, text=True, **options)
    if result.returncode != 0:
        raise AssertionError(f"{command}: {result.stdout}{result.stderr}")
    return result.stdout


def field(package, name):
    return run("dpkg-deb", "-f", package, name).strip()


def files(package):
    """Returns the paths of a package's files and links, without their folders' own."""
    lines = run("dpkg-deb", "-c", package).splitlines()
    return {line.split(None, 5)[5].removeprefix("./") for line in lines if not line.startswith("d")}


def names_of_libraries(package):
    names = [Path(path.split(" -> ")[0]).name for path in files(package)]
    return sorted(name for name in names if re.fullmatch(r"libmsstream\w*\.(a|so[.0-9]*)", name))


class Packing(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = Path(folder.name)
        self.environment = {**os.environ, "SOURCE_DATE_EPOCH": "1893553445"}

    def pack(self, *options):
        run("cmake", "-S", SOURCE / "tests/ways/deb", "-B", self.build / "build", "-D", f"SOURCE={SOURCE}",
            "-D", "CMAKE_BUILD_TYPE=Release", "-D", "CMAKE_INSTALL_PREFIX=/usr", "-D", "CMAKE_INSTALL_RPATH=",
            "-D", f"MSSTREAM_DEB_VERSION={VERSION}", *options, env=self.environment)
        run("cmake", "--build", self.build / "build", env=self.environment)
        return self.packages()

    def packages(self, *options):
        """Returns the packages by their names."""
        for package in (self.build / "build").glob("*.deb"):
            package.unlink()
        run("cpack", "-G", "DEB", *options, cwd=self.build / "build", env=self.environment)
        return {field(package, "Package"): package for package in (self.build / "build").glob("*.deb")}


class Deb(Packing):
    def expect_no_complaint(self, packages):
        if shutil.which("lintian"):
            run("lintian", "--fail-on", "error,warning", *packages.values())

    def test_shared_libraries_have_a_package_that_is_named_after_them(self):
        packages = self.pack("-D", "BUILD_SHARED_LIBS=ON")
        self.assertEqual(set(packages), {"libmsstream0.1", "libmsstream-dev"})
        self.assertEqual(names_of_libraries(packages["libmsstream0.1"]),
                         ["libmsstream.so.0.1", "libmsstream.so.0.1.0",
                          "libmsstream_overlap.so.0.1", "libmsstream_overlap.so.0.1.0"])
        self.assertEqual(names_of_libraries(packages["libmsstream-dev"]), ["libmsstream.so", "libmsstream_overlap.so"])
        self.assertEqual(field(packages["libmsstream0.1"], "Section"), "libs")
        self.assertRegex(field(packages["libmsstream0.1"], "Depends"), r"libstdc\+\+6")
        self.assertIn("usr/share/doc/libmsstream0.1/copyright", files(packages["libmsstream0.1"]))
        self.assertIn("usr/include/msstream/msstream.hpp", files(packages["libmsstream-dev"]))
        self.expect_no_complaint(packages)

    def test_the_links_need_the_libraries_of_their_release(self):
        self.pack("-D", "BUILD_SHARED_LIBS=ON")
        for release in ("1", "2"):
            packages = self.packages("-D", f"CPACK_DEBIAN_PACKAGE_RELEASE={release}")
            self.assertEqual(field(packages["libmsstream0.1"], "Version"), f"{VERSION}-{release}")
            self.assertIn(f"libmsstream0.1 (= {VERSION}-{release})", field(packages["libmsstream-dev"], "Depends"))

    def test_a_program_depends_on_the_version_that_it_was_built_with(self):
        packages = self.pack("-D", "BUILD_SHARED_LIBS=ON")
        library = self.build / "library"
        run("dpkg-deb", "-R", packages["libmsstream0.1"], library)
        self.assertNotIn("RUNPATH", run("objdump", "-p", *library.rglob("*.so.0.1.0")))
        program = self.build / "program"
        (program / "debian").mkdir(parents=True)
        (program / "debian/control").write_text("Source: user\n\nPackage: user\nArchitecture: any\n", encoding="utf-8")
        depends = run("dpkg-shlibdeps", "-O", f"-S{library}", self.build / "build/user", cwd=program)
        expected = [relation for relation in depends.strip().split("=", 1)[1].split(", ") if "msstream" in relation]
        self.assertEqual(sorted(expected), [f"libmsstream0.1 (<< {VERSION}+~)", f"libmsstream0.1 (>= {VERSION})"])
        for version, fits in ((f"{VERSION}-1", True), (f"{VERSION}-7", True), ("0.1.0-1", False), ("0.1.1-1", False),
                              ("0.1.0~git20301231235958.0123abcd-1", False)):
            accepted = [subprocess.run(["dpkg", "--compare-versions", version, relation, bound], check=False).returncode == 0
                        for relation, bound in ((">=", VERSION), ("<<", f"{VERSION}+~"))]
            self.assertEqual(all(accepted), fits, version)

    def test_with_cuda_they_have_other_names_and_exclude_those_without(self):
        packages = self.pack("-D", "BUILD_SHARED_LIBS=ON", "-D", "MSSTREAM_CUDA=ON")
        self.assertEqual(set(packages), {"libmsstream-cuda0.1", "libmsstream-cuda-dev"})
        self.assertEqual(field(packages["libmsstream-cuda0.1"], "Conflicts"), "libmsstream0.1")
        self.assertEqual(field(packages["libmsstream-cuda0.1"], "Provides"), "")
        self.expect_no_complaint(packages)

    def test_archives_have_no_package_of_libraries(self):
        packages = self.pack("-D", "BUILD_SHARED_LIBS=OFF")
        self.assertEqual(set(packages), {"libmsstream-dev", "msstream-tools"})
        self.assertEqual(names_of_libraries(packages["libmsstream-dev"]), ["libmsstream.a", "libmsstream_overlap.a"])
        self.assertNotIn("libmsstream0.1", field(packages["libmsstream-dev"], "Depends"))
        documents = {path.removeprefix("usr/share/doc/") for path in files(packages["libmsstream-dev"])}
        self.assertLessEqual({f"libmsstream-dev/{page}" for page in
                              ("README.md", "CHANGELOG.md", "docs/overlap.md", "examples/quickstart/CMakeLists.txt")}, documents)
        self.assertFalse(any(path.startswith("msstream/") for path in documents))
        self.assertIn("g++ (>= 4:12)", field(packages["libmsstream-dev"], "Recommends"))


@unittest.skipUnless(os.geteuid() == 0, "dpkg installs as root")
class InstalledDeb(Packing):
    """Installs packages into a folder that stands for a system. What they depend on is not there."""

    def setUp(self):
        super().setUp()
        self.system = self.build / "system"
        for folder in ("updates", "info"):
            (self.system / "var/lib/dpkg" / folder).mkdir(parents=True)
        for file in ("status", "available"):
            (self.system / "var/lib/dpkg" / file).touch()

    def dpkg(self, *arguments):
        return run("dpkg", f"--root={self.system}", "--force-depends", "--log=/dev/null", "--path-include=/usr/*",
                   *arguments, env={**self.environment, "DEBIAN_FRONTEND": "noninteractive"})

    def installed(self):
        """Returns the versions of the packages that are installed, by their names."""
        lines = self.dpkg("--list").splitlines()
        return {words[1].split(":")[0]: words[2] for words in map(str.split, lines) if words[0] == "ii"}

    def kept(self, *options):
        """Returns new packages, which later ones do not replace."""
        packages = self.pack("-D", "BUILD_SHARED_LIBS=OFF", *options)
        folder = self.build / f"kept{len(list(self.build.glob('kept*')))}"
        folder.mkdir()
        return {name: Path(shutil.copy(package, folder)) for name, package in packages.items()}

    def library(self):
        (library,) = self.system.rglob("libmsstream.a")
        return library.read_bytes()

    def test_an_upgrade_replaces_what_is_different_and_removes_what_is_gone(self):
        old = self.kept("-D", "TEXT=of the old version")
        new = self.kept("-D", "TEXT=of the next version", "-D", "MSSTREAM_INSTALL_PAGES=OFF",
                        "-D", "MSSTREAM_DEB_VERSION=0.1.1")  # fmt: skip
        page = self.system / "usr/share/doc/libmsstream-dev/docs/overlap.md"
        self.dpkg("--install", *old.values())
        self.assertEqual(self.installed(), dict.fromkeys(("libmsstream-dev", "msstream-tools"), f"{VERSION}-1"))
        self.assertTrue(page.exists())
        self.assertIn(b"of the old version", self.library())
        self.dpkg("--install", *new.values())
        self.assertEqual(self.installed(), dict.fromkeys(("libmsstream-dev", "msstream-tools"), "0.1.1-1"))
        self.assertFalse(page.exists())
        self.assertIn(b"of the next version", self.library())
        self.dpkg("--remove", *new)
        self.assertEqual(self.installed(), {})
        self.assertEqual([path for path in self.system.rglob("*msstream*") if "var/lib/dpkg" not in str(path)], [])

    def test_each_variant_takes_the_place_of_the_other(self):
        of_host = self.kept("-D", "TEXT=of the host")
        of_cuda = self.kept("-D", "TEXT=of CUDA", "-D", "MSSTREAM_CUDA=ON")
        self.assertEqual(set(of_cuda), {"libmsstream-cuda-dev", "msstream-cuda-tools"})
        for packages, text in ((of_host, b"of the host"), (of_cuda, b"of CUDA"), (of_host, b"of the host")):
            self.dpkg("--auto-deconfigure", "--install", *packages.values())
            self.assertEqual(self.installed(), dict.fromkeys(packages, f"{VERSION}-1"))
            self.assertIn(text, self.library())
            self.assertTrue((self.system / "usr/include/msstream/msstream.hpp").exists())


if __name__ == "__main__":
    missing = [tool for tool in ("cpack", "dpkg-deb", "dpkg-shlibdeps", "objdump") if not shutil.which(tool)]
    if missing:
        print("SKIPPED: needs", ", ".join(missing))
        sys.exit(77)
    unittest.main()
