// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace msstream::testing {

/// How a report describes a call that makes the host or other streams wait; `no` if it makes
/// neither wait.
enum class Found : std::uint8_t { no, as_waiting, as_pageable, on_legacy_stream };
/// A call that is, for msstream, one of third-party code.
struct Call {
  std::string name;
  Found found;
  std::function<void(cudaStream_t scope_stream)> make;
};

/// Returns calls of the CUDA runtime and driver, with everything that they need. Each can be
/// repeated.
[[nodiscard]] std::vector<Call> calls_of_third_parties();
/// Returns the words with which a report describes the call.
[[nodiscard]] std::string words_of(Found found);

}  // namespace msstream::testing
