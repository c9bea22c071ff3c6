# SPDX-License-Identifier: Apache-2.0
# What every target of the project shares: language level, warnings, sanitizers.
include(GNUInstallDirs)

# A project that adds this one as a folder keeps its own settings.
if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()
find_package(Threads REQUIRED)

if(MSSTREAM_CUDA)
  if(NOT CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES 90)
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
endif()

add_library(msstream_build_options INTERFACE)
target_compile_options(msstream_build_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic>
  # Files that are compiled as one hide each other's names, which clang cannot be told; elsewhere, hiding any is a mistake.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wshadow$<$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>:=local>>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${MSSTREAM_WERROR}>>:-Werror>
  # g++ takes the unused storage of an empty std::optional for an uninitialised value once it inlines enough.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>
  # CMake before 3.26 does not know CUDA C++20 and passes no flag for it.
  $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 -Xcompiler=-Wall,-Wextra --expt-relaxed-constexpr>)
if(MSSTREAM_SANITIZE)
  target_compile_options(msstream_build_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${MSSTREAM_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>
    # A null pointer crashes anyway, with the same trace; these three take long to compile. So does the search for misaligned
    # access, as long as all else together: it is made in the library alone.
    $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=null,object-size,vptr$<$<NOT:$<BOOL:$<TARGET_PROPERTY:MSSTREAM_CHECK_ALIGNMENT>>>:,alignment>>)
  target_link_options(msstream_build_options INTERFACE -fsanitize=${MSSTREAM_SANITIZE})
endif()

# Joins the files of a target that has all its sources, but for those of CUDA: kernels take long as it is, which CMake from
# 3.31 on would join too, and the archive has programs that must get by without cuBLASLt.
function(msstream_join_files target)
  get_target_property(cuda_files ${target} SOURCES)
  list(FILTER cuda_files INCLUDE REGEX "(\\.cu|_cuda\\.cpp)$")
  if(cuda_files)
    set_source_files_properties(${cuda_files} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${MSSTREAM_UNITY_BUILD})
endfunction()

# A program; with MSSTREAM_SYNTAX_ONLY, only a check that its C++ compiles. msstream_add_program(program sources…)
function(msstream_add_program program)
  if(MSSTREAM_SYNTAX_ONLY)
    add_library(${program} OBJECT ${ARGN})
    target_compile_options(${program} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fsyntax-only>)
  else()
    add_executable(${program} ${ARGN})
  endif()
endfunction()
