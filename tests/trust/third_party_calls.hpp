// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace msstream::testing {

/// The kind of wait that a report attributes to a CUDA call; `no` if the call makes neither the
/// host nor other streams wait.
enum class Found : std::uint8_t { no, as_waiting, as_pageable, on_legacy_stream };
/// A CUDA call that msstream treats as made by third-party code.
struct Call {
  std::string name;
  Found found;
  std::function<void(cudaStream_t scope_stream)> make;
};

/// Returns calls of the CUDA runtime and driver with all objects that they use. Each call can be
/// repeated.
[[nodiscard]] std::vector<Call> calls_of_third_parties();
/// Returns the words with which a report describes this kind of wait.
[[nodiscard]] std::string words_of(Found found);

}  // namespace msstream::testing
