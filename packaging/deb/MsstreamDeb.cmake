# SPDX-License-Identifier: Apache-2.0
# Defines the Debian packages that `cpack -G DEB` makes of a build whose prefix is /usr:
# libmsstream-dev for programmers, and msstream-tools. Of a build with shared libraries they are libmsstream-dev
# and a package with the libraries, which is named after their SONAMEs; msstream-tools is made with archives
# alone. scripts/deb.sh configures such a build.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME msstream)
set(CPACK_PACKAGE_VENDOR msstream)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL dev tools)
if(BUILD_SHARED_LIBS)
  set(CPACK_COMPONENTS_ALL dev runtime)
  set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/shared.cmake)
endif()
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/stage.cmake)
set(CPACK_MSSTREAM_SOURCE_DIR ${PROJECT_SOURCE_DIR})

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
# A development version, such as 0.1.0~git20261231235959.0123abcd, sorts before its release.
set(MSSTREAM_DEB_VERSION "${PROJECT_VERSION}" CACHE STRING
  "Version of the Debian packages without their release; scripts/deb.sh sets what scripts/version.sh --debian prints")
set(CPACK_DEBIAN_PACKAGE_VERSION "${MSSTREAM_DEB_VERSION}")
set(MSSTREAM_DEB_MAINTAINER "msstream maintainers <msstream@packages.invalid>" CACHE STRING
  "Maintainer of the Debian packages, as in: Name <address>")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${MSSTREAM_DEB_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# The packages of a build with CUDA are called differently than those of the host runtime. Both have the
# same files, so that one replaces the other. Those with CUDA have all that the others have, and stand in
# for them where a package depends on them.
set(deb_variant "")
set(deb_runtime "It has the host runtime, which needs no GPU.")
set(deb_other -cuda)
set(deb_dev_provides "")
set(deb_tools_provides "")
if(MSSTREAM_CUDA)
  set(deb_variant -cuda)
  set(deb_runtime "It has the CUDA runtime and the host runtime.\nIt needs the CUDA toolkit ${CUDAToolkit_VERSION_MAJOR}.")
  set(deb_other "")
  set(deb_dev_provides "libmsstream-dev (= ${MSSTREAM_DEB_VERSION})")
  set(deb_tools_provides "msstream-tools (= ${MSSTREAM_DEB_VERSION})")
  # The tools' libraries are looked for here, too, to find which packages have them; those of CUDA may be in none.
  list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CUDAToolkit_LIBRARY_DIR})
endif()

set(deb_libraries "the static libraries")
if(BUILD_SHARED_LIBS)
  set(deb_libraries "links to libraries")
endif()

# A static library has no shlibs, so that the packages with what it calls are named: fmt of the major
# version that it was compiled with, and zlib.
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libmsstream${deb_variant}-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
# The C++ library is that of g++, of which clang says the version, too.
separate_arguments(deb_flags UNIX_COMMAND "${CMAKE_CXX_FLAGS}")
execute_process(COMMAND ${CMAKE_CXX_COMPILER} ${deb_flags} -x c++ -dM -E -include cstddef /dev/null
  OUTPUT_VARIABLE deb_macros ERROR_QUIET)
if(NOT deb_macros MATCHES "#define _GLIBCXX_RELEASE ([0-9]+)")
  message(STATUS "msstream: no Debian packages, since ${CMAKE_CXX_COMPILER} does not use the C++ library of g++")
  return()
endif()
set(deb_depends "libstdc++-${CMAKE_MATCH_1}-dev, zlib1g-dev")
if(NOT MSSTREAM_FMT_HEADER_ONLY AND fmt_VERSION)
  string(REGEX MATCH "^[0-9]+" deb_fmt "${fmt_VERSION}")
  math(EXPR deb_next_fmt "${deb_fmt} + 1")
  string(APPEND deb_depends ", libfmt-dev (>= ${deb_fmt}), libfmt-dev (<< ${deb_next_fmt}~)")
endif()
if(TARGET msstream_mpi)
  set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "libopenmpi-dev")
endif()
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${deb_depends}")
set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS "g++ (>= 4:12) | clang (>= 1:14), cmake (>= 3.25) | pkgconf")
set(CPACK_DEBIAN_DEV_PACKAGE_CONFLICTS "libmsstream${deb_other}-dev")
set(CPACK_DEBIAN_DEV_PACKAGE_REPLACES "libmsstream${deb_other}-dev")
set(CPACK_DEBIAN_DEV_PACKAGE_PROVIDES "${deb_dev_provides}")
set(CPACK_COMPONENT_DEV_DESCRIPTION "With msstream you put a scope around a branch of a recommender model and issue
operations. msstream adds the waits that are needed and no others, reuses
memory across streams without races, and runs the backward pass on the streams
of the forward pass. ${deb_runtime}
.
This package has the headers, ${deb_libraries}, the files that CMake
and pkg-config read, the pages of the documentation, and an example.")

if(BUILD_SHARED_LIBS)
  get_target_property(deb_soversion msstream SOVERSION)
  get_target_property(deb_folder msstream BINARY_DIR)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libmsstream${deb_variant}${deb_soversion})
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
  list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${deb_folder})  # one of the libraries loads the other
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONFLICTS "libmsstream${deb_other}${deb_soversion}")
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_REPLACES "libmsstream${deb_other}${deb_soversion}")
  set(CPACK_MSSTREAM_SOVERSION ${deb_soversion})
  set(CPACK_MSSTREAM_CONTROL_DIR ${PROJECT_BINARY_DIR}/deb-control)
  set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "This package has the shared libraries that programs of msstream load.
${deb_runtime}")
endif()

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME msstream${deb_variant}-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "python3")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS "libmsstream${deb_variant}-dev")  # has the pages that messages name
set(CPACK_DEBIAN_TOOLS_PACKAGE_CONFLICTS "msstream${deb_other}-tools")
set(CPACK_DEBIAN_TOOLS_PACKAGE_REPLACES "msstream${deb_other}-tools")
set(CPACK_DEBIAN_TOOLS_PACKAGE_PROVIDES "${deb_tools_provides}")
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "This package has msstream-overlap, which says why the streams of a CUDA program
did not overlap, msstream-doctor, which says what a computer can do for
msstream, and msstream-memory, which draws the use of an allocator's memory.")
include(CPack)
