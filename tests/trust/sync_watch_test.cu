// SPDX-License-Identifier: Apache-2.0
// Tests that CUDA calls inside a StreamScope that make streams wait are reported, also if they are
// made by third-party code.
#include "trust/third_party_calls.hpp"

#include <msstream/msstream.hpp>
#include <msstream/runtime/checked.hpp>
#include <msstream/runtime/faulty.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <cuda_runtime.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <type_traits>

namespace msstream::testing {
namespace {

using R = Checked<Cuda>;

static_assert(std::is_base_of_v<msstream::detail::SyncWatch<Cuda>,
                                msstream::detail::SyncWatch<Faulty<Cuda>>>);

class SyncWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Cuda::device_count() == 0) {
      GTEST_SKIP() << "no CUDA device";
    }
    ASSERT_TRUE(msstream::detail::SyncWatch<Cuda>::start()) << "no libcupti";
  }
  static Device<R> device() {
    return Device<R>({.runtime = {.check = {.mode = CheckMode::count, .report_path = {}}}});
  }
};

TEST_F(SyncWatchTest, finds_each_call_that_synchronises_inside_a_scope_once) {
  auto const on = device();
  auto& checker = *on.runtime().checker();
  StreamPool pool(on, {.groups = 2});
  auto const stream = pool[1].compute().native();
  for (auto const& call : calls_of_third_parties()) {
    SCOPED_TRACE(call.name + words_of(call.found));
    auto const before = checker.count();
    call.make(stream);
    EXPECT_EQ(checker.count(), before) << "outside of all scopes";
    {
      StreamScope const scope(pool[1]);
      call.make(stream);
    }
    ASSERT_EQ(checker.count() - before, call.found == Found::no ? 0U : 1U) << checker.json();
    if (call.found != Found::no) {
      auto const report = checker.reports().back();
      EXPECT_EQ(report.kind, CheckKind::implicit_sync);
      EXPECT_EQ(report.message.find(call.name), 0U) << report.message;
      EXPECT_NE(report.message.find(words_of(call.found)), std::string::npos) << report.message;
    }
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
}

TEST_F(SyncWatchTest, tells_the_checker_of_the_scope_that_the_call_is_in) {
  auto const other = device();
  auto const on = device();
  StreamPool other_pool(other);
  StreamPool pool(on);
  StreamScope const outer(other_pool[0]);
  StreamScope const scope(pool[0]);
  cudaDeviceSynchronize();
  EXPECT_EQ(on.runtime().checker()->count(), 1U);
  EXPECT_EQ(other.runtime().checker()->count(), 0U);
}

TEST_F(SyncWatchTest, finds_them_inside_an_operation_on_a_launch_thread) {
  auto const on = device();
  auto& checker = *on.runtime().checker();
  StreamPool pool(on, {.groups = 2, .launch_threads = LaunchThreads::per_group});
  Tensor<float, R> const tensor(on, {16});
  {
    StreamScope const scope(pool[0]);
    issue("careless", writes(tensor), [](auto) { cudaDeviceSynchronize(); });
  }
  pool.synchronize();
  ASSERT_EQ(checker.reports().size(), 1U) << checker.json();
  EXPECT_EQ(checker.reports().front().kind, CheckKind::implicit_sync);
}

TEST_F(SyncWatchTest, the_growth_of_msstreams_own_pools_is_none) {
  auto const on = device();
  StreamPool pool(on, {.groups = 2});
  StreamScope const scope(pool[1]);
  auto const tensor = zeros<float>(on, {1 << 20});
  EXPECT_EQ(to_host(tensor).size(), std::size_t{1} << 20U);
  EXPECT_EQ(on.runtime().checker()->count(), 0U) << on.runtime().checker()->json();
}

}  // namespace
}  // namespace msstream::testing
