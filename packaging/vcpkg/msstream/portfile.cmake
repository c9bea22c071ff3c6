# SPDX-License-Identifier: Apache-2.0
# An overlay port, which builds the sources that it is in:
# vcpkg install msstream --overlay-ports=<sources>/packaging/vcpkg
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
vcpkg_check_linkage(ONLY_STATIC_LIBRARY)

vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS FEATURES
  cuda MSSTREAM_CUDA
  tools MSSTREAM_BUILD_TOOLS)
# The triplet says for which GPUs the kernels are, as in set(MSSTREAM_CUDA_ARCHITECTURES 80 90), since vcpkg tells
# packages apart by the content of their triplets. The GPUs of this machine do not count.
if("cuda" IN_LIST FEATURES)
  if(NOT MSSTREAM_CUDA_ARCHITECTURES)
    set(MSSTREAM_CUDA_ARCHITECTURES 90)
  endif()
  string(REPLACE ";" "\\;" architectures "${MSSTREAM_CUDA_ARCHITECTURES}")  # one element of the list of options
  vcpkg_find_cuda(OUT_CUDA_TOOLKIT_ROOT toolkit)
  list(APPEND FEATURE_OPTIONS "-DCMAKE_CUDA_ARCHITECTURES=${architectures}"
    "-DCMAKE_CUDA_COMPILER=${toolkit}/bin/nvcc" "-DCUDAToolkit_ROOT=${toolkit}")
else()  # no recorder, whether this machine has the headers of CUPTI or not
  list(APPEND FEATURE_OPTIONS -DMSSTREAM_CUPTI_HEADERS=OFF)
endif()
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    ${FEATURE_OPTIONS}
    -DMSSTREAM_BUILD_EXAMPLES=OFF
    -DMSSTREAM_BUILD_TESTS=OFF
    -DMSSTREAM_INSTALL_PAGES=OFF
    -DMSSTREAM_MPI=OFF
    -DMSSTREAM_NATIVE_ARCH=OFF
    -DMSSTREAM_NOTICES=
    -DMSSTREAM_RECORDER_FOLDER=
  OPTIONS_DEBUG
    -DMSSTREAM_BUILD_TOOLS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/msstream)
vcpkg_fixup_pkgconfig()
if("tools" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES msstream-doctor msstream-memory msstream-overlap AUTO_CLEAN)
  # msstream-overlap looks for its recorder beside itself.
  set(recorder libmsstream_overlap_record.so)
  if(EXISTS "${CURRENT_PACKAGES_DIR}/lib/msstream/${recorder}")
    file(RENAME "${CURRENT_PACKAGES_DIR}/lib/msstream/${recorder}" "${CURRENT_PACKAGES_DIR}/tools/${PORT}/${recorder}")
    file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/lib/msstream")
  endif()
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
file(GLOB notices "${SOURCE_PATH}/packaging/notices/*.txt")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE" ${notices})
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
