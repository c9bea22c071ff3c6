# SPDX-License-Identifier: Apache-2.0
# Refuses a header whose version is not that of the project: msstream_compare_versions(header). The
# header repeats the numbers so that the sources compile without CMake.
function(msstream_compare_versions header)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
  file(STRINGS ${header} lines REGEX "^#define MSSTREAM_VERSION_(MAJOR|MINOR|PATCH) [0-9]+$")
  list(TRANSFORM lines REPLACE "^.* " "")
  list(JOIN lines "." version)
  if(NOT version STREQUAL PROJECT_VERSION)
    message(FATAL_ERROR "${header} has the version '${version}', and project(msstream VERSION ${PROJECT_VERSION}) is the "
      "one that counts: write its numbers into MSSTREAM_VERSION_MAJOR, MSSTREAM_VERSION_MINOR and MSSTREAM_VERSION_PATCH")
  endif()
endfunction()
