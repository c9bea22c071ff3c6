# SPDX-License-Identifier: Apache-2.0
# Settings that all targets of the project share: the language level, warnings and sanitizers.
include(GNUInstallDirs)
# The folder for documents that a parent project has included by now is the parent's own.
set(msstream_doc_dir ${CMAKE_INSTALL_DOCDIR})
if(NOT PROJECT_IS_TOP_LEVEL)
  set(msstream_doc_dir ${CMAKE_INSTALL_DATAROOTDIR}/doc/msstream)
endif()

# A parent project that includes msstream with add_subdirectory keeps its own settings.
if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  # Installed tools and libraries find a shared libmsstream also in a folder that was moved.
  if(BUILD_SHARED_LIBS AND NOT DEFINED CMAKE_INSTALL_RPATH)
    file(RELATIVE_PATH lib_from_bin ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
    set(CMAKE_INSTALL_RPATH "$ORIGIN" "$ORIGIN/${lib_from_bin}")
  endif()
endif()
find_package(Threads REQUIRED)
# The library fmt formats messages and reports. A parent project may have a target of its own.
if(NOT TARGET fmt::fmt)
  find_package(fmt 9 REQUIRED GLOBAL)
endif()

if(MSSTREAM_CUDA)
  include(MsstreamCudaArchitectures)
  msstream_choose_cuda_architectures()
  # A parent project or a toolchain file may set the standard of C++, which is that of CUDA too if no other is set, or
  # one of CUDA that is too old. CMake before 3.26 knows no option for CUDA C++20.
  if(CMAKE_CXX_STANDARD OR CMAKE_CUDA_STANDARD)
    set(CMAKE_CUDA_STANDARD 17)  # for CMake's check of the compiler
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 20)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
  else()
    enable_language(CUDA)
  endif()
  find_package(CUDAToolkit REQUIRED)
  if(CUDAToolkit_VERSION VERSION_LESS 12.4)
    message(FATAL_ERROR "MSSTREAM_CUDA=ON needs the CUDA toolkit 12.4 or newer, and ${CUDAToolkit_VERSION} was found in ${CUDAToolkit_BIN_DIR}: set CMAKE_CUDA_COMPILER to the nvcc of a newer toolkit")
  endif()
endif()

add_library(msstream_build_options INTERFACE)
target_compile_options(msstream_build_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic>
  # In a unity build, names of one file shadow names of another, so g++ reports only shadowing of
  # local names there, and all shadowing elsewhere. clang has no option for local names, so it gets
  # no -Wshadow.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wshadow$<$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>:=local>>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${MSSTREAM_WERROR}>>:-Werror>
  # When g++ inlines enough, it mistakes the unused storage of an empty std::optional for an
  # uninitialised value.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>
  # CMake before 3.26 does not know CUDA C++20 and passes no flag for it.
  $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 -Xcompiler=-Wall,-Wextra --expt-relaxed-constexpr>)
if(MSSTREAM_SANITIZE)
  target_compile_options(msstream_build_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${MSSTREAM_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>
    # The checks null, object-size and vptr take long to compile, and a null pointer crashes with
    # the same trace anyway. The check of alignment takes as long to compile as all others together,
    # so only targets with MSSTREAM_CHECK_ALIGNMENT have it, which is the library.
    $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=null,object-size,vptr$<$<NOT:$<BOOL:$<TARGET_PROPERTY:MSSTREAM_CHECK_ALIGNMENT>>>:,alignment>>)
  target_link_options(msstream_build_options INTERFACE -fsanitize=${MSSTREAM_SANITIZE})
endif()

# Makes a unity build of a target whose sources have all been added: msstream_join_files(target
# [BY_ROOM]). CUDA sources stay separate: kernels take long to compile as they are, and CMake 3.31
# and later would join them too. Sources that call CUDA libraries also stay separate, since some
# programs link the archive without cuBLASLt. For the same reason, with BY_ROOM only files of one
# room with its sub-folders, or of one folder of kernels/, are joined: a program that needs one room
# of the library must not need the kernels of another.
function(msstream_join_files target)
  cmake_parse_arguments(ARG "BY_ROOM" "" "" ${ARGN})
  get_target_property(sources ${target} SOURCES)
  set(cuda_files ${sources})
  list(FILTER cuda_files INCLUDE REGEX "(\\.cu|_cuda\\.cpp)$")
  if(cuda_files)
    set_source_files_properties(${cuda_files} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${MSSTREAM_UNITY_BUILD})
  if(ARG_BY_ROOM)
    set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
    # In this mode CMake takes no batch size but named groups of files, so groups are numbered
    # within a room.
    set(batch 8)
    if(DEFINED CMAKE_UNITY_BUILD_BATCH_SIZE)
      set(batch ${CMAKE_UNITY_BUILD_BATCH_SIZE})
    endif()
    list(FILTER sources INCLUDE REGEX "\\.cpp$")
    list(FILTER sources EXCLUDE REGEX "_cuda\\.cpp$")
    foreach(source ${sources})
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE place)
      string(REGEX REPLACE "^[^/]+/([^/]+)/.*$" "\\1" room ${place})
      set(group ${room})
      if(batch GREATER 0)
        if(NOT DEFINED joined_of_${room})
          set(joined_of_${room} 0)
        endif()
        math(EXPR number "${joined_of_${room}} / ${batch}")
        math(EXPR joined_of_${room} "${joined_of_${room}} + 1")
        string(APPEND group _${number})
      endif()
      set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${group})
    endforeach()
  endif()
endfunction()

# Adds a program: msstream_add_program(program sources…). With MSSTREAM_SYNTAX_ONLY, adds only a
# check that its sources compile, for those in CUDA by all of nvcc but the last step, and without
# those that are for the host alone.
function(msstream_add_program program)
  if(MSSTREAM_SYNTAX_ONLY)
    set(sources ${ARGN})
    if(MSSTREAM_CUDA)
      list(FILTER sources EXCLUDE REGEX "_host\\.cpp$")
    endif()
    add_library(${program} OBJECT ${sources})
    target_compile_options(${program} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-fsyntax-only> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fsyntax-only>)
  else()
    add_executable(${program} ${ARGN})
  endif()
  if(MSSTREAM_KERNELS_IN_A_HURRY)
    target_compile_options(${program} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--Ofast-compile=max>)
  endif()
endfunction()

# With MSSTREAM_SYNTAX_ONLY, makes checks that C++ compiles of the libraries that the folder adds
# after it, for libraries that only programs link: their archives are empty.
macro(msstream_check_syntax_of_folder)
  if(MSSTREAM_SYNTAX_ONLY)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsyntax-only>)
    msstream_make_empty_archives()
  endif()
endmacro()
macro(msstream_make_empty_archives)
  foreach(language CXX CUDA)
    set(CMAKE_${language}_CREATE_STATIC_LIBRARY "<CMAKE_COMMAND> -E rm -f <TARGET>" "<CMAKE_AR> qc <TARGET>")
  endforeach()
endmacro()

# Sets how the programs and libraries are optimised that the folder adds after it. Programs take
# longer to compile than to run, and spend their time in the library.
macro(msstream_optimise_programs)
  if(MSSTREAM_SANITIZE)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-O0>)
  elseif(MSSTREAM_IN_A_HURRY AND NOT MSSTREAM_SYNTAX_ONLY)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-O1>)
  endif()
endmacro()

# Adds a holder of headers that are compiled once, before the targets that share them:
# msstream_hold_headers(holder OPTIONS options… LINK libraries… HEADERS headers…). The options are
# those of the targets. Without MSSTREAM_IN_A_HURRY there is none, since an edit of one of these
# headers compiles all the targets again.
function(msstream_hold_headers holder)
  if(NOT MSSTREAM_IN_A_HURRY OR MSSTREAM_SANITIZE)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "OPTIONS;LINK;HEADERS" ${ARGN})
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${holder}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(${holder} OBJECT ${source})
  target_link_libraries(${holder} PRIVATE msstream::msstream msstream_build_options ${ARG_LINK})
  target_compile_options(${holder} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(${holder} PRIVATE ${ARG_HEADERS})
endfunction()

# Includes the headers of a holder, if there is one, in each C++ source of a target first:
# msstream_share_headers(target holder). g++ reads the headers themselves where options differ.
function(msstream_share_headers target holder)
  if(TARGET ${holder})
    target_precompile_headers(${target} REUSE_FROM ${holder})
    set_target_properties(${target} PROPERTIES PCH_WARN_INVALID OFF)
  endif()
endfunction()
