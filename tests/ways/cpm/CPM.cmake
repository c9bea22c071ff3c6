# SPDX-License-Identifier: Apache-2.0
# A stand-in for CPM.cmake, which neither Debian nor PyPI has: what CPMAddPackage() does with a package
# of a URL. As CPM does, it sets the options and calls FetchContent.
include(FetchContent)
macro(CPMAddPackage)
  cmake_parse_arguments(CPM_ARG "" "NAME;VERSION;URL;URL_HASH" "OPTIONS" ${ARGN})
  foreach(name NAME VERSION URL URL_HASH)
    if(NOT CPM_ARG_${name})
      message(FATAL_ERROR "CPMAddPackage: expected NAME, VERSION, URL, URL_HASH and OPTIONS, found ${ARGN}")
    endif()
  endforeach()
  foreach(option IN LISTS CPM_ARG_OPTIONS)  # such as "MSSTREAM_CUDA ON"
    string(REGEX MATCH "^([^ ]+) (.*)$" matched "${option}")
    set(${CMAKE_MATCH_1} "${CMAKE_MATCH_2}" CACHE INTERNAL "of CPMAddPackage")
  endforeach()
  FetchContent_Declare(${CPM_ARG_NAME} URL "${CPM_ARG_URL}" URL_HASH "${CPM_ARG_URL_HASH}" DOWNLOAD_EXTRACT_TIMESTAMP ON)
  FetchContent_MakeAvailable(${CPM_ARG_NAME})
  set(${CPM_ARG_NAME}_ADDED YES)
  set(${CPM_ARG_NAME}_SOURCE_DIR "${${CPM_ARG_NAME}_SOURCE_DIR}")
endmacro()
