# SPDX-License-Identifier: Apache-2.0
"""Builds and runs the quickstart with the package."""

import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout


class MsstreamTest(ConanFile):
    settings = "os", "arch", "compiler", "build_type"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False  # would write into the sources
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if not can_run(self):
            return
        if self.dependencies["msstream"].options.get_safe("cuda") and not os.path.exists("/dev/nvidiactl"):
            self.output.warning("the quickstart is built, and not run: it needs a GPU, and this machine has none")
        else:
            self.run(os.path.join(self.cpp.build.bindir, "quickstart"), env="conanrun")
