# SPDX-License-Identifier: Apache-2.0
# For which GPUs the CUDA kernels are compiled.

# Sets CMAKE_CUDA_ARCHITECTURES in the scope of the caller unless it, or the environment variable
# CUDAARCHS, names the GPUs: to those that nvidia-smi lists, otherwise to 90. The choice is made once for
# a build folder, so that a later run of CMake on a machine with other GPUs recompiles nothing.
function(msstream_choose_cuda_architectures)
  if(NOT "${CMAKE_CUDA_ARCHITECTURES}" STREQUAL "" OR NOT "$ENV{CUDAARCHS}" STREQUAL "")
    return()
  endif()
  if(NOT MSSTREAM_CHOSEN_ARCHITECTURES)
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader TIMEOUT 60
      RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_QUIET)
    set(chosen "")
    if(NOT failed)
      string(REGEX MATCHALL "[0-9]+[.][0-9]" capabilities "${output}")
      foreach(capability ${capabilities})
        if(capability VERSION_GREATER_EQUAL 7.5)  # the kernels do not compile for older ones
          string(REPLACE "." "" architecture ${capability})
          list(APPEND chosen ${architecture})
        endif()
      endforeach()
    endif()
    set(why "of the GPUs that nvidia-smi lists")
    if(NOT chosen)
      set(chosen 90)
      set(why "since nvidia-smi lists no GPU of compute capability 7.5 or higher")
    endif()
    list(REMOVE_DUPLICATES chosen)
    list(SORT chosen COMPARE NATURAL)
    set(MSSTREAM_CHOSEN_ARCHITECTURES "${chosen}" CACHE INTERNAL "Architectures of CUDA that msstream chose")
    set(MSSTREAM_CHOSEN_BECAUSE "${why}" CACHE INTERNAL "Why msstream chose them")
  endif()
  message(STATUS "msstream: CUDA kernels for the architectures ${MSSTREAM_CHOSEN_ARCHITECTURES}, "
    "${MSSTREAM_CHOSEN_BECAUSE}; -DCMAKE_CUDA_ARCHITECTURES=<list> names others")
  set(CMAKE_CUDA_ARCHITECTURES "${MSSTREAM_CHOSEN_ARCHITECTURES}" PARENT_SCOPE)
endfunction()

# Sets `result` to what CMAKE_CUDA_ARCHITECTURES stands for, without the words native, all and all-major;
# empty if that is not known, as the project gives nvcc's options itself.
function(msstream_resolve_cuda_architectures result)
  set(architectures "${CMAKE_CUDA_ARCHITECTURES}")
  if(architectures STREQUAL "native")
    set(architectures "${CMAKE_CUDA_ARCHITECTURES_NATIVE}")
  elseif(architectures MATCHES "^all(-major)?$")
    # CMake compiles machine code for all, and PTX for the last.
    set(architectures "${CMAKE_CUDA_ARCHITECTURES_ALL}")
    if(CMAKE_CUDA_ARCHITECTURES STREQUAL "all-major")
      set(architectures "${CMAKE_CUDA_ARCHITECTURES_ALL_MAJOR}")
    endif()
    list(POP_BACK architectures last)
    list(TRANSFORM architectures APPEND "-real")
    list(APPEND architectures ${last})
  elseif(NOT architectures)
    set(architectures "")
  endif()
  set(${result} "${architectures}" PARENT_SCOPE)
endfunction()
