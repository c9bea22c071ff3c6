# SPDX-License-Identifier: Apache-2.0
# Writes and installs the files that pkg-config reads: msstream.pc, msstream-overlap.pc and, with
# MPI, msstream-mpi.pc. The libraries are static, so that a program always needs what they call;
# therefore that is in Libs and Requires, not in the private fields.
#
# The prefix is relative to the file, so that an installed folder may be moved. The option -std is
# there because g++ 12 and clang compile C++17 by default.
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

set(pc_cflags "-DMSSTREAM_CUDA=$<BOOL:${MSSTREAM_CUDA}>$<$<BOOL:${MSSTREAM_CHECKED}>: -DMSSTREAM_CHECKED=1>")
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
if(MSSTREAM_CUDA)
  # The CUDA toolkit has files for pkg-config whose names contain its version, in a folder of its
  # own; a program of CUDA names the toolkit's folder itself.
  string(APPEND pc_libs " -lcublasLt -lcudart -ldl")
  if(MSSTREAM_NCCL_HEADERS AND MSSTREAM_NCCL_LIBRARY)
    string(APPEND pc_libs " -l:libnccl.so.2")
  endif()
endif()
string(APPEND pc_libs " -pthread")

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
Cflags: -std=c++20 -I\${includedir} ${cflags} -pthread
Libs: -L\${libdir} ${libs}
")
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endfunction()

msstream_pc_file(msstream "${PROJECT_DESCRIPTION}" "${pc_libs}" "${pc_requires}" "${pc_cflags}")
set(pc_overlap_libs "-lmsstream_overlap -ldl")
if(MSSTREAM_READS_TRACES)
  string(APPEND pc_overlap_libs " -l:libz.so.1")
endif()
msstream_pc_file(msstream-overlap "Says why the streams of a program did not overlap" "${pc_overlap_libs}"
  "msstream = ${PROJECT_VERSION}" "")
if(TARGET msstream_mpi)
  # The compiler of MPI, such as mpicxx, adds MPI's own headers and libraries.
  msstream_pc_file(msstream-mpi "Processes of mpirun as ranks of msstream; compile with mpicxx"
    "-lmsstream_mpi -Wl,--undefined=msstream_finds_by_mpi" "msstream = ${PROJECT_VERSION}" "")
endif()
