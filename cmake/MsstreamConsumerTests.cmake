# SPDX-License-Identifier: Apache-2.0
# Adds tests that a user's project can include msstream by find_package and by add_subdirectory.
# Each test configures and builds a small project from an empty build folder.
function(msstream_consumer_test name)
  add_test(NAME ${name} COMMAND ${CMAKE_CTEST_COMMAND}
    --build-and-test ${CMAKE_CURRENT_SOURCE_DIR}/${name} ${CMAKE_CURRENT_BINARY_DIR}/${name}
    --build-generator ${CMAKE_GENERATOR} --build-makeprogram ${CMAKE_MAKE_PROGRAM} ${ARGN})
  # The high COST makes ctest start this test first: started last it would run alone.
  set_tests_properties(${name} PROPERTIES TIMEOUT 3600 COST 1000)
endfunction()

set(prefix ${CMAKE_CURRENT_BINARY_DIR}/consumer_prefix)
add_test(NAME consumer_clean COMMAND ${CMAKE_COMMAND} -E rm -rf
  ${prefix} ${CMAKE_CURRENT_BINARY_DIR}/consumer_install ${CMAKE_CURRENT_BINARY_DIR}/consumer_subdirectory)
add_test(NAME consumer_prefix COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --prefix ${prefix})
msstream_consumer_test(consumer_install
  --build-options -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER} -DCMAKE_PREFIX_PATH=${prefix} -DEXPECTED_CUDA=${MSSTREAM_CUDA}
  --test-command consumer)
# Compiles the program without the library's sources, which take minutes. The part `consumer` of
# scripts/nightly.sh builds and runs it.
msstream_consumer_test(consumer_subdirectory --build-target consumer_compiles
  --build-options -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER} -DMSSTREAM_SOURCE=${PROJECT_SOURCE_DIR})

# Asks the installed package for versions and components.
string(JOIN "\\;" expected_components ${msstream_components})
add_test(NAME consumer_components COMMAND ${CMAKE_COMMAND} -G ${CMAKE_GENERATOR} -DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}
  -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER} -DCMAKE_PREFIX_PATH=${prefix} -DEXPECTED_COMPONENTS=${expected_components}
  --fresh -S ${PROJECT_SOURCE_DIR}/tests/ways/components -B ${CMAKE_CURRENT_BINARY_DIR}/consumer_components)
set_tests_properties(consumer_components PROPERTIES FIXTURES_REQUIRED msstream_installed)

# Checks that nvcc takes the flags of pkg-config.
add_test(NAME consumer_nvcc COMMAND ${PROJECT_SOURCE_DIR}/tests/ways/pkg_config/nvcc_test.sh
  ${prefix}/${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set_tests_properties(consumer_nvcc PROPERTIES FIXTURES_REQUIRED msstream_installed SKIP_RETURN_CODE 77)

# Compiles a kernel of a user's project with the installed library, by CMake. Without nvcc there is no such test.
find_program(msstream_users_nvcc nvcc PATHS /usr/local/cuda/bin)
if(msstream_users_nvcc)
  add_test(NAME consumer_cuda_source COMMAND ${CMAKE_CTEST_COMMAND}
    --build-and-test ${PROJECT_SOURCE_DIR}/tests/ways/cuda_source ${CMAKE_CURRENT_BINARY_DIR}/consumer_cuda_source
    --build-generator ${CMAKE_GENERATOR} --build-makeprogram ${CMAKE_MAKE_PROGRAM}
    --build-options -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER} -DCMAKE_CUDA_COMPILER=${msstream_users_nvcc}
      -DCMAKE_PREFIX_PATH=${prefix} -DEXPECTED_CUDA=${MSSTREAM_CUDA})
  set_tests_properties(consumer_cuda_source PROPERTIES FIXTURES_REQUIRED msstream_installed)
endif()

# Checks that configuring a parent project without CMAKE_BUILD_TYPE prints a notice about it.
add_test(NAME consumer_build_type COMMAND ${CMAKE_COMMAND} -G ${CMAKE_GENERATOR} -DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}
  -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER} -DMSSTREAM_SOURCE=${PROJECT_SOURCE_DIR}
  -S ${CMAKE_CURRENT_SOURCE_DIR}/consumer_subdirectory -B ${CMAKE_CURRENT_BINARY_DIR}/consumer_build_type)
set_tests_properties(consumer_build_type PROPERTIES PASS_REGULAR_EXPRESSION "CMAKE_BUILD_TYPE is not set")

# Checks that the installed library refuses another major version of fmt than it was built with. A
# folder with nothing but package files stands for that version. The version of a parent project's
# own fmt is unknown.
if(fmt_VERSION)
  set(other_fmt ${CMAKE_CURRENT_BINARY_DIR}/consumer_other_fmt_package)
  file(WRITE ${other_fmt}/fmt-config.cmake "")
  file(WRITE ${other_fmt}/fmt-config-version.cmake
    "set(PACKAGE_VERSION 999.1.0)\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n")
  add_test(NAME consumer_other_fmt COMMAND ${CMAKE_COMMAND} -G ${CMAKE_GENERATOR}
    -DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM} -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
    -DCMAKE_PREFIX_PATH=${prefix} -Dfmt_DIR=${other_fmt} -DEXPECTED_CUDA=${MSSTREAM_CUDA}
    -S ${CMAKE_CURRENT_SOURCE_DIR}/consumer_install -B ${CMAKE_CURRENT_BINARY_DIR}/consumer_other_fmt)
  # CMake breaks the lines of the message.
  set_tests_properties(consumer_other_fmt PROPERTIES FIXTURES_REQUIRED msstream_installed
    PASS_REGULAR_EXPRESSION "built with fmt[ \n]+${fmt_VERSION},[ \n]+and[ \n]+fmt[ \n]+999.1.0")
endif()

# Checks what CMake says of toolkits, GPUs and versions, with stand-ins for all of them.
add_test(NAME consumer_package COMMAND ${CMAKE_COMMAND} -G ${CMAKE_GENERATOR} -DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}
  -DSOURCE=${PROJECT_SOURCE_DIR} --fresh -S ${PROJECT_SOURCE_DIR}/tests/ways/package
  -B ${CMAKE_CURRENT_BINARY_DIR}/consumer_package)

# Checks that the sources refuse a CUDA toolkit which is too old, and the package one of another major
# version than it was built with. A module that finds nothing but a version stands for that toolkit.
if(MSSTREAM_CUDA)
  foreach(version 12.3.107 999.1.0)
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/consumer_cuda_${version}/FindCUDAToolkit.cmake
      "set(CUDAToolkit_FOUND TRUE)\nset(CUDAToolkit_VERSION ${version})\nset(CUDAToolkit_BIN_DIR /toolkit)\n")
  endforeach()
  add_test(NAME consumer_old_cuda COMMAND ${CMAKE_COMMAND} -G ${CMAKE_GENERATOR} -DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}
    -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER} -DCMAKE_CUDA_COMPILER=${CMAKE_CUDA_COMPILER} -DMSSTREAM_CUDA=ON
    -DCMAKE_MODULE_PATH=${CMAKE_CURRENT_BINARY_DIR}/consumer_cuda_12.3.107
    -S ${PROJECT_SOURCE_DIR} -B ${CMAKE_CURRENT_BINARY_DIR}/consumer_old_cuda)
  set_tests_properties(consumer_old_cuda PROPERTIES
    PASS_REGULAR_EXPRESSION "toolkit[ \n]+12.4[ \n]+or[ \n]+newer,[ \n]+and[ \n]+12.3.107")
  add_test(NAME consumer_other_cuda COMMAND ${CMAKE_COMMAND} -G ${CMAKE_GENERATOR}
    -DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM} -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
    -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_MODULE_PATH=${CMAKE_CURRENT_BINARY_DIR}/consumer_cuda_999.1.0 -DEXPECTED_CUDA=ON
    -S ${CMAKE_CURRENT_SOURCE_DIR}/consumer_install -B ${CMAKE_CURRENT_BINARY_DIR}/consumer_other_cuda)
  set_tests_properties(consumer_other_cuda PROPERTIES FIXTURES_REQUIRED msstream_installed
    PASS_REGULAR_EXPRESSION "built with CUDA[ \n]+${CUDAToolkit_VERSION},[ \n]+and[ \n]+CUDA[ \n]+999.1.0")
endif()

set_tests_properties(consumer_clean PROPERTIES FIXTURES_SETUP msstream_clean)
set_tests_properties(consumer_prefix PROPERTIES FIXTURES_REQUIRED msstream_clean FIXTURES_SETUP msstream_installed)
set_tests_properties(consumer_install PROPERTIES FIXTURES_REQUIRED msstream_installed)
set_tests_properties(consumer_subdirectory PROPERTIES FIXTURES_REQUIRED msstream_clean)
