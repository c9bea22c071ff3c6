// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/checked.hpp>
#include <msstream/runtime/cuda.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/runtime/host.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <type_traits>

namespace msstream::testing {

/// The runtime R as the tests use it: in a build with MSSTREAM_CHECKED, a runtime that checks the
/// uses of memory for races.
template <class R>
using Tried = std::conditional_t<(MSSTREAM_CHECKED != 0), Checked<R>, R>;

#if MSSTREAM_TESTS_OF_CUDA_ALONE
using Runtimes = ::testing::Types<Tried<Cuda>>;
using PlainRuntimes = ::testing::Types<Cuda>;
#elif MSSTREAM_CUDA
using Runtimes = ::testing::Types<Tried<Host>, Tried<Cuda>>;
using PlainRuntimes = ::testing::Types<Host, Cuda>;
#else
using Runtimes = ::testing::Types<Tried<Host>>;
using PlainRuntimes = ::testing::Types<Host>;
#endif

#if MSSTREAM_CHECKED && !MSSTREAM_TESTS_EXPECT_FAULTS
/// Fails a test in which a checking runtime finds a fault that it cannot throw, because it is in a
/// destructor. The program that switches mechanisms off has no such listener: its tests expect
/// faults.
class QuietFindings : public ::testing::EmptyTestEventListener {
 public:
  void OnTestStart(::testing::TestInfo const&) override { before_ = Checker::quiet_findings(); }
  void OnTestEnd(::testing::TestInfo const&) override {
    if (Checker::quiet_findings() != before_) {
      ADD_FAILURE() << "a checking runtime told of something on stderr";
    }
  }

 private:
  std::uint64_t before_ = 0;
};
inline bool const kQuietFindingsFail = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new QuietFindings);
  return true;
}();
#endif

struct RuntimeNames {
  template <class R>
  static std::string GetName(int) {
    return std::string(R::name);
  }
};

/// Returns an empty string if tests can use the runtime on this machine, otherwise the reason.
template <class R>
std::string why_unavailable() {
#if MSSTREAM_CUDA
  if (R::name == Cuda::name && Cuda::device_count() == 0) {
    return "no CUDA device";
  }
#endif
  return {};
}

}  // namespace msstream::testing
