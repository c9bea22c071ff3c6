// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fake_cudart.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

namespace fake_cuda {

/// How often which function of CUDA may be called. What is not named may not be called at all.
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
  /// Kernels; each launch is followed by one look at the calling thread's last error, which stays
  /// inside the CUDA runtime.
  Budget& launches(std::uint64_t count) {
    return exactly("cudaLaunchKernel", count).exactly("cudaGetLastError", count);
  }
  /// As many events recorded as streams made to wait: one of each a dependency between streams.
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

/// Whether `counted` is what the budget allows; if not, a table of the calls that differ.
[[nodiscard]] ::testing::AssertionResult within(Counts const& counted, Budget const& budget);

}  // namespace fake_cuda
