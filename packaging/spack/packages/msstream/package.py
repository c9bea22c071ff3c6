# SPDX-License-Identifier: Apache-2.0
"""The package for Spack. From the root of the sources:

spack repo add packaging/spack
spack dev-build msstream@0.1.0
"""

from spack.package import *

try:  # since Spack 1.0
    from spack_repo.builtin.build_systems.cmake import CMakePackage
    from spack_repo.builtin.build_systems.cuda import CudaPackage
except ImportError:
    pass  # spack.package has them


class Msstream(CMakePackage, CudaPackage):
    """Many small GPU operations, concurrently and safely, in C++20."""

    license("Apache-2.0")

    version("0.1.0")

    variant("mpi", default=False, description="Processes of mpirun as ranks")
    variant("tools", default=True, description="The tools msstream-overlap and msstream-doctor")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("eigen@3.4:3", type="build")
    depends_on("fmt@9:")
    depends_on("nlohmann-json@3.9:", type="build")
    depends_on("rapidjson", type="build")
    depends_on("zlib-api")
    depends_on("cli11@2:", type="build", when="+tools")
    depends_on("sqlite@3", when="+tools")
    depends_on("mpi", when="+mpi")
    depends_on("cuda@12.4:", when="+cuda")
    conflicts("%gcc@:11", msg="msstream needs g++ 12 or newer")
    # The library would be for the GPUs of the machine that builds it, which its hash does not tell.
    conflicts("cuda_arch=none", when="+cuda", msg="msstream +cuda needs the GPUs, as in cuda_arch=80,90")

    def cmake_args(self):
        arguments = [
            self.define_from_variant("MSSTREAM_CUDA", "cuda"),
            self.define_from_variant("MSSTREAM_BUILD_TOOLS", "tools"),
            self.define("MSSTREAM_MPI", self.spec["mpi"].prefix if self.spec.satisfies("+mpi") else "OFF"),
            self.define("MSSTREAM_BUILD_EXAMPLES", False),
            self.define("MSSTREAM_BUILD_TESTS", False),
            self.define("MSSTREAM_NATIVE_ARCH", False),
        ]
        if self.spec.satisfies("~cuda"):  # no recorder, whether this machine has the headers of CUPTI or not
            arguments.append(self.define("MSSTREAM_CUPTI_HEADERS", "OFF"))
        else:
            arguments.append(self.define("CMAKE_CUDA_ARCHITECTURES", list(self.spec.variants["cuda_arch"].value)))
        return arguments
