// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace msstream::detail {

/// Looks up a function of the CUDA driver at run time, so that no program needs to link the driver.
/// `version` is the CUDA version whose signature and behaviour the function must have. Returns
/// false if the installed driver lacks the function.
template <class Call>
[[nodiscard]] bool find_driver_call(Call& call, char const* name, unsigned version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  auto const code =
      cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result);
  bool const is_found = code == cudaSuccess && result == cudaDriverEntryPointSuccess;
#else
  // The runtime of CUDA 12.4 finds functions as its own version has them. One of these is the
  // driver's search by version.
  void* search = nullptr;
  auto const code =
      cudaGetDriverEntryPoint("cuGetProcAddress", &search, cudaEnableDefault, &result);
  CUdriverProcAddressQueryResult found_by_version{};
  bool const is_found =
      code == cudaSuccess && result == cudaDriverEntryPointSuccess &&
      reinterpret_cast<decltype(&cuGetProcAddress)>(search)(name,
                                                            &found,
                                                            static_cast<int>(version),
                                                            CU_GET_PROC_ADDRESS_DEFAULT,
                                                            &found_by_version) == CUDA_SUCCESS &&
      found_by_version == CU_GET_PROC_ADDRESS_SUCCESS;
#endif
  call = reinterpret_cast<Call>(found);
  return is_found;
}

}  // namespace msstream::detail
