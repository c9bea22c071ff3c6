# SPDX-License-Identifier: Apache-2.0
# An overlay port, which builds the sources that it is in:
# vcpkg install msstream --overlay-ports=<sources>/packaging/vcpkg
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS FEATURES
  cuda MSSTREAM_CUDA
  tools MSSTREAM_BUILD_TOOLS)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS
  ${FEATURE_OPTIONS}
  -DMSSTREAM_BUILD_EXAMPLES=OFF
  -DMSSTREAM_BUILD_TESTS=OFF
  -DMSSTREAM_MPI=OFF
  -DMSSTREAM_NATIVE_ARCH=OFF
  -DMSSTREAM_RECORDER_FOLDER=)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/msstream)
vcpkg_fixup_pkgconfig()
if("tools" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES msstream-doctor msstream-memory msstream-overlap AUTO_CLEAN)
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
