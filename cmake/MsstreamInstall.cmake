# SPDX-License-Identifier: Apache-2.0
# Defines what `cmake --install` copies: the headers, the static library, and the package files that
# find_package(msstream) reads.
include(CMakePackageConfigHelpers)

set(msstream_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/msstream)
if(MSSTREAM_NATIVE_ARCH)
  install(CODE [[message(NOTICE "msstream: this build is for processors like this machine's alone (MSSTREAM_NATIVE_ARCH=ON); to install for others, configure with -DMSSTREAM_NATIVE_ARCH=OFF")]])
endif()
install(TARGETS msstream msstream_overlap EXPORT msstream-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/msstream
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp" PATTERN "*.cuh")
if(TARGET msstream_mpi)
  # An export of its own: the package is usable without MPI.
  install(TARGETS msstream_mpi EXPORT msstream-mpi-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT msstream-mpi-targets NAMESPACE msstream:: DESTINATION ${msstream_package_dir})
endif()
if(TARGET msstream_torch)
  # The Python module and its shared library are installed into one folder, to be added to
  # PYTHONPATH: the module looks for the library in its own folder.
  install(TARGETS msstream_torch LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/msstream_torch)
  install(FILES ${PROJECT_SOURCE_DIR}/interop/pytorch/msstream_torch.py
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/msstream_torch)
endif()
if(TARGET msstream-overlap)
  # The tool looks for its recorder in ../lib, beside its own folder.
  install(TARGETS msstream-overlap RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(TARGET msstream_overlap_record)
    install(TARGETS msstream_overlap_record LIBRARY DESTINATION lib)
  endif()
endif()
if(TARGET msstream-doctor)
  install(TARGETS msstream-doctor RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(EXPORT msstream-targets NAMESPACE msstream:: DESTINATION ${msstream_package_dir})

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/msstream-config.cmake.in ${PROJECT_BINARY_DIR}/msstream-config.cmake
  INSTALL_DESTINATION ${msstream_package_dir} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/msstream-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/msstream-config.cmake ${PROJECT_BINARY_DIR}/msstream-config-version.cmake
        DESTINATION ${msstream_package_dir})
