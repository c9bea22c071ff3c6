// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fake_cudart.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

namespace fake_cuda {

/// The permitted number of calls of each CUDA function. A function that is not listed must not be
/// called at all.
class Budget {
 public:
  Budget& exactly(std::string const& call, std::uint64_t count) {
    allowed_[call] = {count, count};
    return *this;
  }
  Budget& at_most(std::string const& call, std::uint64_t count) {
    allowed_[call] = {0, count};
    return *this;
  }
  /// Permits `count` kernel launches. After each launch the library also calls cudaGetLastError(),
  /// which stays inside the CUDA runtime.
  Budget& launches(std::uint64_t count) {
    return exactly("cudaLaunchKernel", count).exactly("cudaGetLastError", count);
  }
  /// Permits `count` dependencies between streams, each with one event record and one stream wait.
  Budget& dependencies(std::uint64_t count) {
    return exactly("cudaEventRecord", count).exactly("cudaStreamWaitEvent", count);
  }

  struct Allowed {
    std::uint64_t least = 0;
    std::uint64_t most = 0;
  };
  [[nodiscard]] std::map<std::string, Allowed> const& allowed() const noexcept { return allowed_; }

 private:
  std::map<std::string, Allowed> allowed_;
};

/// Returns whether the counted calls are within the budget. If they are not, the message is a table
/// of the calls that differ.
[[nodiscard]] ::testing::AssertionResult within(Counts const& counted, Budget const& budget);

}  // namespace fake_cuda
