// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace msstream::testing {

/// How a call is told of, if it makes the host or other streams wait.
enum class Found : std::uint8_t { no, as_waiting, as_pageable, on_legacy_stream };
/// A call of third-party code, as far as msstream knows.
struct Call {
  std::string name;
  Found found;
  std::function<void(cudaStream_t scope_stream)> make;
};

/// Calls of the CUDA runtime and driver, with what they need. Each works when it is made again.
[[nodiscard]] std::vector<Call> calls_of_third_parties();
/// What a report says of a call that is found so.
[[nodiscard]] std::string words_of(Found found);

}  // namespace msstream::testing
