// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace msstream::detail {

/// Looks up a function of the CUDA driver at run time, so that no program needs to link the driver.
/// `version` is the CUDA version whose signature and behaviour the function must have. Returns
/// false if the installed driver lacks the function.
template <class Call>
[[nodiscard]] bool find_driver_call(Call& call, char const* name, unsigned version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  auto const code =
      cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result);
  call = reinterpret_cast<Call>(found);
  return code == cudaSuccess && result == cudaDriverEntryPointSuccess;
}

}  // namespace msstream::detail
