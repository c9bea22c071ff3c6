# SPDX-License-Identifier: Apache-2.0
"""The recipe for Conan 2: conan create packaging/conan."""

import re
import shutil
import subprocess
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir
from conan.tools.scm import Version
from conan.tools.system.package_manager import Apt

required_conan_version = ">=2.0"


class MsstreamConan(ConanFile):
    name = "msstream"
    description = "Many small GPU operations, concurrently and safely"
    # The library and the tools contain parts of Eigen, fmt, nlohmann-json, RapidJSON and CLI11, compiled.
    license = ("Apache-2.0", "MPL-2.0", "MIT", "BSD-3-Clause")
    topics = ("cuda", "streams", "recommender")
    package_type = "static-library"
    settings = "os", "arch", "compiler", "build_type"
    # cuda: the major version of the system's CUDA toolkit, whose nvcc is on the PATH or in /usr/local/cuda/bin.
    # cuda_architectures: the GPUs that the kernels are for, as CMAKE_CUDA_ARCHITECTURES has them, such as 80;90.
    # dependencies: whether fmt, Eigen and the others come from the system's packages or from Conan.
    options = {"cuda": [False, "12", "13"], "cuda_architectures": ["ANY"], "dependencies": ["system", "conan"],
               "fPIC": [True, False], "tools": [True, False]}
    default_options = {"cuda": False, "cuda_architectures": "90", "dependencies": "system", "fPIC": True, "tools": True}

    def set_version(self):
        # The recipe is in packaging/conan of the sources, whose version is the project's.
        text = load(self, Path(self.recipe_folder, "..", "..", "CMakeLists.txt"))
        self.version = re.search(r"project\(msstream VERSION ([0-9.]+)", text).group(1)

    def export_sources(self):
        root = Path(self.recipe_folder, "..", "..")
        for folder in ("apps", "cmake", "include", "interop", "kernels", "packaging/deb", "packaging/notices", "src",
                       "tools"):
            copy(self, f"{folder}/*", root, self.export_sources_folder)
        for file in ("CHANGELOG.md", "CMakeLists.txt", "LICENSE"):
            copy(self, file, root, self.export_sources_folder)

    def configure(self):
        if not self.options.cuda:
            del self.options.cuda_architectures

    def package_id(self):
        if self.info.options.cuda:
            # The same GPUs in another order are the same package.
            self.info.options.cuda_architectures = ";".join(self._architectures(self.info.options))

    def validate(self):
        check_min_cppstd(self, 20)
        if self.options.cuda:
            for architecture in self._architectures(self.options):
                if not re.fullmatch(r"\d{2,3}[af]?(-real|-virtual)?", architecture):
                    raise ConanInvalidConfiguration(
                        "msstream: cuda_architectures lists GPUs by their numbers, such as 80;90, since packages for "
                        f"different GPUs have different ids; found {self.options.cuda_architectures}")
        oldest = {"gcc": "12", "clang": "14"}.get(str(self.settings.compiler))
        found = f"{self.settings.compiler} {self.settings.compiler.version}"
        if oldest is None or Version(self.settings.compiler.version) < oldest:
            raise ConanInvalidConfiguration(f"msstream needs gcc 12 or newer, or clang 14 or newer; found {found}")

    def validate_build(self):
        if self.options.cuda:
            found = re.search(r"release ([0-9]+)[.]", self._version_of_nvcc())
            if not found or found.group(1) != str(self.options.cuda):
                raise ConanInvalidConfiguration(
                    f"msstream with cuda={self.options.cuda} needs nvcc of CUDA {self.options.cuda}, on the PATH or in "
                    f"/usr/local/cuda/bin; found {'CUDA ' + found.group(1) if found else 'none'}")

    @staticmethod
    def _architectures(options):
        return sorted({part.strip() for part in re.split("[;,]", str(options.cuda_architectures))})

    @staticmethod
    def _nvcc():
        return shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"

    def _version_of_nvcc(self):
        try:
            return subprocess.run([self._nvcc(), "--version"], stdout=subprocess.PIPE, text=True, check=False).stdout
        except OSError:
            return ""

    def layout(self):
        cmake_layout(self)

    def system_requirements(self):
        if self.options.dependencies == "system":
            packages = ["libfmt-dev", "libeigen3-dev", "nlohmann-json3-dev", "rapidjson-dev", "zlib1g-dev"]
            if self.options.tools:
                packages += ["libcli11-dev", "libsqlite3-dev"]
            Apt(self).install(packages, check=True)

    def requirements(self):
        if self.options.dependencies == "conan":
            self.requires("fmt/[>=9 <12]", transitive_headers=True, transitive_libs=True)
            self.requires("zlib/[>=1.2 <2]")
            for reference in ("eigen/[>=3.4 <4]", "nlohmann_json/[>=3.9 <4]", "rapidjson/[*]"):
                self.requires(reference, visible=False)
            if self.options.tools:
                self.requires("cli11/[>=2 <3]", visible=False)
                self.requires("sqlite3/[>=3 <4]", visible=False)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables.update({
            "MSSTREAM_BUILD_EXAMPLES": False,
            "MSSTREAM_BUILD_TESTS": False,
            "MSSTREAM_BUILD_TOOLS": bool(self.options.tools),
            "MSSTREAM_CUDA": bool(self.options.cuda),
            "MSSTREAM_INSTALL_PAGES": False,
            "MSSTREAM_MPI": "OFF",
            "MSSTREAM_NATIVE_ARCH": False,
            "MSSTREAM_NOTICES": "",  # package() copies them
            "MSSTREAM_RECORDER_FOLDER": "",
        })
        if self.options.cuda:
            toolchain.cache_variables["CMAKE_CUDA_ARCHITECTURES"] = ";".join(self._architectures(self.options))
            toolchain.cache_variables["CMAKE_CUDA_COMPILER"] = self._nvcc()
        else:  # no recorder, whether this machine has the headers of CUPTI or not
            toolchain.cache_variables["MSSTREAM_CUPTI_HEADERS"] = "OFF"
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        licenses = Path(self.package_folder, "licenses")
        copy(self, "LICENSE", self.source_folder, licenses)
        copy(self, "*.txt", Path(self.source_folder, "packaging", "notices"), licenses)
        CMake(self).install()
        rmdir(self, Path(self.package_folder, "lib", "pkgconfig"))  # Conan's PkgConfigDeps writes it

    def package_info(self):
        # CMake reads the project's own msstream-config.cmake, which knows the components; the rest
        # is for the generators of other build systems.
        self.cpp_info.set_property("cmake_find_mode", "none")
        library = self.cpp_info.components["msstream"]
        library.builddirs = ["lib/cmake/msstream"]
        library.set_property("pkg_config_name", "msstream")
        library.libs = ["msstream"]
        library.defines = [f"MSSTREAM_CUDA={int(bool(self.options.cuda))}"]
        library.system_libs = ["pthread"]
        if self.options.cuda:
            library.system_libs += ["cublasLt", "cudart", "dl"]
        overlap = self.cpp_info.components["overlap"]
        overlap.set_property("pkg_config_name", "msstream-overlap")
        overlap.libs = ["msstream_overlap"]
        overlap.requires = ["msstream"]
        overlap.system_libs = ["dl"]
        if self.options.dependencies == "conan":
            library.requires = ["fmt::fmt"]
            overlap.requires.append("zlib::zlib")
        else:
            library.system_libs.append("fmt")
            overlap.system_libs.append("z")
