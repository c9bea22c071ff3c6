# SPDX-License-Identifier: Apache-2.0
# Defines what `cmake --install` copies. Install components: `dev` has the headers, the libraries, and what CMake and pkg-config read; `tools` has the programs and their manual pages.
# Shared libraries are a component of their own, `runtime`, of which `dev` has the links that the linker follows.
include(CMakePackageConfigHelpers)

set(msstream_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/msstream)
if(MSSTREAM_NATIVE_ARCH)
  install(CODE [[message(NOTICE "msstream: this build is for processors like this machine's alone (MSSTREAM_NATIVE_ARCH=ON); to install for others, configure with -DMSSTREAM_NATIVE_ARCH=OFF")]]
    COMPONENT dev)
endif()

install(TARGETS msstream msstream_overlap EXPORT msstream-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/msstream DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.cuh")
# The project's licence, and those of the libraries that archives and tools contain compiled.
set(MSSTREAM_NOTICES "${PROJECT_SOURCE_DIR}/packaging/notices" CACHE PATH
  "Folder of licence notices to install into the documentation; neither they nor the licence if empty")
if(MSSTREAM_NOTICES)
  set(documented dev tools)
  if(BUILD_SHARED_LIBS)
    list(APPEND documented runtime)
  endif()
  foreach(component IN LISTS documented)
    install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${msstream_doc_dir} COMPONENT ${component})
    install(DIRECTORY ${MSSTREAM_NOTICES}/ DESTINATION ${msstream_doc_dir}/notices COMPONENT ${component})
  endforeach()
endif()
install(EXPORT msstream-targets NAMESPACE msstream:: DESTINATION ${msstream_package_dir} COMPONENT dev)

# The pages, and the quickstart with a project of its own. They lie to one another as in the sources, so that their
# links lead from one to the other, and msstream-overlap and msstream-doctor name the pages by where they are.
option(MSSTREAM_INSTALL_PAGES "Install the pages of the documentation and the quickstart" ON)
if(MSSTREAM_INSTALL_PAGES)
  install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
          DESTINATION ${msstream_doc_dir} COMPONENT dev)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${msstream_doc_dir} COMPONENT dev
          FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.schema.json" PATTERN "site" EXCLUDE)
  install(FILES ${PROJECT_SOURCE_DIR}/examples/quickstart/quickstart.cpp
          ${PROJECT_SOURCE_DIR}/packaging/quickstart/CMakeLists.txt
          DESTINATION ${msstream_doc_dir}/examples/quickstart COMPONENT dev)
endif()

set(msstream_nccl_folder "")
if(nccl IN_LIST msstream_components)
  cmake_path(GET MSSTREAM_NCCL_LIBRARY PARENT_PATH msstream_nccl_folder)
endif()
# What makes gdb show the library's objects: `source <prefix>/share/msstream/gdb/msstream_gdb.py`.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tools/gdb DESTINATION ${CMAKE_INSTALL_DATADIR}/msstream COMPONENT dev
        FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
if(TARGET msstream_mpi)
  # An export of its own: the package is usable without MPI.
  install(TARGETS msstream_mpi EXPORT msstream-mpi-targets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
  install(EXPORT msstream-mpi-targets NAMESPACE msstream:: DESTINATION ${msstream_package_dir} COMPONENT dev)
endif()
set(msstream_cuda_architectures "")
if(MSSTREAM_CUDA)
  msstream_resolve_cuda_architectures(msstream_cuda_architectures)
endif()
configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/msstream-config.cmake.in ${PROJECT_BINARY_DIR}/msstream-config.cmake
  INSTALL_DESTINATION ${msstream_package_dir} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/msstream-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/msstream-config.cmake ${PROJECT_BINARY_DIR}/msstream-config-version.cmake
        DESTINATION ${msstream_package_dir} COMPONENT dev)
include(MsstreamPkgConfig)

if(TARGET msstream_torch)
  # The module looks for the library in its own folder.
  set(MSSTREAM_TORCH_PACKAGE "" CACHE STRING
    "Where to install the PyTorch module as a package of Python; by default as a file, in lib/msstream_torch, which PYTHONPATH then has to name")
  if(MSSTREAM_TORCH_PACKAGE)
    install(TARGETS msstream_torch LIBRARY DESTINATION ${MSSTREAM_TORCH_PACKAGE} COMPONENT tools)
    install(FILES ${PROJECT_SOURCE_DIR}/interop/pytorch/msstream_torch.py DESTINATION ${MSSTREAM_TORCH_PACKAGE}
            RENAME __init__.py COMPONENT tools)
  else()
    install(TARGETS msstream_torch LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/msstream_torch COMPONENT tools)
    install(FILES ${PROJECT_SOURCE_DIR}/interop/pytorch/msstream_torch.py
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/msstream_torch COMPONENT tools)
  endif()
endif()
if(MSSTREAM_BUILD_TOOLS)
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/tools/msstream-memory DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  install(FILES ${PROJECT_SOURCE_DIR}/tools/msstream-memory.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
endif()
if(TARGET msstream-overlap)
  install(TARGETS msstream-overlap RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  install(FILES ${PROJECT_SOURCE_DIR}/tools/overlap/msstream-overlap.1
          DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
  if(TARGET msstream_overlap_record)
    # The tool looks for its recorder by a path relative to its own folder.
    install(TARGETS msstream_overlap_record LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/msstream COMPONENT tools)
  endif()
endif()
if(TARGET msstream-doctor)
  install(TARGETS msstream-doctor RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  install(FILES ${PROJECT_SOURCE_DIR}/tools/doctor/msstream-doctor.1
          DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
endif()

# `cmake --build <folder> --target uninstall` removes what `cmake --install` copied.
if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(uninstall COMMENT "Removing what was installed"
    COMMAND ${CMAKE_COMMAND} -D BUILD_FOLDER=${PROJECT_BINARY_DIR} -P ${CMAKE_CURRENT_LIST_DIR}/MsstreamUninstall.cmake
    VERBATIM)
  include(${PROJECT_SOURCE_DIR}/packaging/deb/MsstreamDeb.cmake)
endif()
