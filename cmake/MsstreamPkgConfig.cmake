# SPDX-License-Identifier: Apache-2.0
# Writes and installs the files that pkg-config reads: msstream.pc, msstream-overlap.pc and, with
# MPI, msstream-mpi.pc. A program that links static libraries always needs what they call; therefore
# that is in Libs and Requires, not in the private fields. With shared libraries, a program needs what the
# headers call.
#
# The prefix is relative to the file, so that an installed folder may be moved. The option -std is
# there because g++ 12 and clang compile C++17 by default.
#
# g++, clang++ and nvcc take the flags of msstream.pc and msstream-overlap.pc alike: nvcc knows neither
# -pthread nor -Wl. The option -Xlinker may be there once, since pkgconf drops the first of two.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
  set(pc_libdir ${CMAKE_INSTALL_FULL_LIBDIR})
  set(pc_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
  file(RELATIVE_PATH pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" pc_prefix "\${pcfiledir}/${pc_prefix}")
  set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()

# fmt up to version 9 takes nvcc for a compiler without constexpr, and does not compile then. Other
# compilers have the value by themselves.
set(pc_cflags "-DMSSTREAM_CUDA=$<BOOL:${MSSTREAM_CUDA}> -DFMT_USE_CONSTEXPR=1")
string(APPEND pc_cflags "$<$<BOOL:${MSSTREAM_CHECKED}>: -DMSSTREAM_CHECKED=1>")
set(pc_requires "")
if(NOT MSSTREAM_FMT_HEADER_ONLY)
  # The library calls fmt, whose binary interface differs between its major versions.
  set(pc_requires fmt)
  if(fmt_VERSION)
    string(REGEX MATCH "^[0-9]+" pc_fmt "${fmt_VERSION}")
    math(EXPR pc_next_fmt "${pc_fmt} + 1")
    set(pc_requires "fmt >= ${pc_fmt}, fmt < ${pc_next_fmt}")
  endif()
endif()
set(pc_libs "-lmsstream")
if(NOT BUILD_SHARED_LIBS)
  # The types that gdb's printers need, as for the users of the CMake target.
  string(APPEND pc_libs " -Xlinker --undefined=msstream_debug_types")
endif()
if(MSSTREAM_CUDA)
  # The CUDA toolkit has files for pkg-config whose names contain its version, in a folder of its
  # own; a program of CUDA names the toolkit's folder itself.
  string(APPEND pc_libs " -lcudart")
  if(NOT BUILD_SHARED_LIBS)
    string(APPEND pc_libs " -lcublasLt -ldl")
    if(MSSTREAM_NCCL_HEADERS AND MSSTREAM_NCCL_LIBRARY)
      string(APPEND pc_libs " -l:libnccl.so.2")
    endif()
  endif()
endif()
string(APPEND pc_libs " -lpthread")

# Writes one file. Paths are not quoted: pkg-config itself escapes spaces in the folder of the file.
# msstream_pc_file(name description libraries requirements flags)
function(msstream_pc_file name description libs requires cflags)
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/${name}.pc CONTENT
"prefix=${pc_prefix}
libdir=${pc_libdir}
includedir=${pc_includedir}

Name: ${name}
Description: ${description}
Version: ${PROJECT_VERSION}
Requires: ${requires}
Cflags: -std=c++20 -I\${includedir} ${cflags}
Libs: -L\${libdir} ${libs}
")
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endfunction()

msstream_pc_file(msstream "${PROJECT_DESCRIPTION}" "${pc_libs}" "${pc_requires}" "${pc_cflags}")
set(pc_overlap_libs "-lmsstream_overlap")
if(NOT BUILD_SHARED_LIBS)
  string(APPEND pc_overlap_libs " -ldl$<$<BOOL:${MSSTREAM_READS_TRACES}>: -l:libz.so.1>")
endif()
msstream_pc_file(msstream-overlap "Says why the streams of a program did not overlap" "${pc_overlap_libs}"
  "msstream = ${PROJECT_VERSION}" "")
if(TARGET msstream_mpi)
  # The compiler of MPI, such as mpicxx, adds MPI's own headers and libraries, and takes -Wl.
  msstream_pc_file(msstream-mpi "Processes of mpirun as ranks of msstream; compile with mpicxx"
    "-lmsstream_mpi -Wl,--undefined=msstream_finds_by_mpi" "msstream = ${PROJECT_VERSION}" "")
endif()
