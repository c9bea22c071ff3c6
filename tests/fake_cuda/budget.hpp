// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fake_cudart.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

namespace fake_cuda {

/// The allowed number of calls of each CUDA function. A function that is not named may not be
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
  /// Allows `count` kernel launches. Each is followed by one cudaGetLastError() of the calling
  /// thread, which stays inside the CUDA runtime.
  Budget& launches(std::uint64_t count) {
    return exactly("cudaLaunchKernel", count).exactly("cudaGetLastError", count);
  }
  /// Allows `count` dependencies between streams, each of which records one event and makes one
  /// stream wait.
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

/// Returns whether `counted` is within the budget. If it is not, the message is a table of the
/// calls that differ.
[[nodiscard]] ::testing::AssertionResult within(Counts const& counted, Budget const& budget);

}  // namespace fake_cuda
