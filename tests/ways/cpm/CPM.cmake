# SPDX-License-Identifier: Apache-2.0
# A stand-in for CPM.cmake, which neither Debian nor PyPI has: what CPMAddPackage() does with a package
# whose sources the variable CPM_<name>_SOURCE names. It downloads nothing.
function(CPMAddPackage)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "" "NAME;VERSION;URL;URL_HASH" "OPTIONS")
  if(NOT ARG_NAME OR ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "CPMAddPackage: expected NAME, VERSION, URL, URL_HASH and OPTIONS, found ${ARGN}")
  endif()
  set(source "${CPM_${ARG_NAME}_SOURCE}")
  if(NOT IS_DIRECTORY "${source}")
    message(FATAL_ERROR "the stand-in for CPM needs CPM_${ARG_NAME}_SOURCE, the folder of the sources")
  endif()
  foreach(option IN LISTS ARG_OPTIONS)  # such as "MSSTREAM_CUDA ON"
    string(REGEX MATCH "^([^ ]+) (.*)$" matched "${option}")
    set(${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
  endforeach()
  add_subdirectory("${source}" "${CMAKE_BINARY_DIR}/_deps/${ARG_NAME}-build")
  set(${ARG_NAME}_ADDED YES PARENT_SCOPE)
  set(${ARG_NAME}_SOURCE_DIR "${source}" PARENT_SCOPE)
endfunction()
