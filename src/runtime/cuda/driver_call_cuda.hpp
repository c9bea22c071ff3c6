// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace msstream::detail {

/// Finds a function of the driver, with the meaning that it had in `version`, so that nothing links
/// the driver. Returns false if this driver does not have it.
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
