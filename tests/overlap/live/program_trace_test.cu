// SPDX-License-Identifier: Apache-2.0
// Tests reports of steps on a GPU, whose times come from CUPTI.
#include <msstream/msstream.hpp>
#include <msstream/overlap/report.hpp>

#include <cuda_runtime_api.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

__global__ void bypass_issue(float* values, std::int64_t count) {
  for (auto i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    values[i] = values[i] * 2.0F + 1.0F;
  }
}

class OverlapReportOnCuda : public ::testing::Test {
 protected:
  static constexpr std::int64_t kCount = std::int64_t{1} << 20U;

  void SetUp() override {
    if (Cuda::device_count() == 0) {
      GTEST_SKIP() << "no CUDA device";
    }
    device_.emplace();
    x_.emplace(to_device(*device_, std::vector<float>(kCount, 1.0F), {kCount}));
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&own_, kCount * sizeof(float)), cudaSuccess);
  }
  void TearDown() override {
    unsetenv("MSSTREAM_OVERLAP_RECORDER");
    cudaFree(own_);
    if (stream_ != nullptr) {
      cudaStreamDestroy(stream_);
    }
  }

  /// Launches a kernel and a fill on a stream that msstream does not know.
  void bypass() const {
    bypass_issue<<<64, 256, 0, stream_>>>(own_, kCount);
    ASSERT_EQ(cudaMemsetAsync(own_, 0, 4096, stream_), cudaSuccess);
  }
  static void expect_sum(OverlapReport const& report) {
    std::int64_t sum = 0;
    for (auto const& time : report.times()) {
      sum += time.ns;
    }
    EXPECT_EQ(sum, report.window_ns());
    EXPECT_GT(sum, 0);
  }
  /// Returns the median time of the host for a launch, in ns.
  [[nodiscard]] double launch_ns() const {
    constexpr int kRounds = 15;
    constexpr int kLaunches = 500;
    std::vector<double> rounds;
    for (int round = 0; round < kRounds; ++round) {
      auto const begin = std::chrono::steady_clock::now();
      for (int launch = 0; launch < kLaunches; ++launch) {
        bypass_issue<<<1, 32, 0, stream_>>>(own_, 32);
      }
      std::chrono::duration<double, std::nano> const ns = std::chrono::steady_clock::now() - begin;
      rounds.push_back(ns.count() / kLaunches);
      cudaStreamSynchronize(stream_);
    }
    std::ranges::nth_element(rounds, rounds.begin() + kRounds / 2);
    return rounds[kRounds / 2];
  }
  static bool has_cupti(OverlapReport const& report) {
    return report.text().find("cannot load CUPTI") == std::string::npos;
  }

  std::optional<Device<Cuda>> device_;
  std::optional<Tensor<float, Cuda>> x_;
  cudaStream_t stream_ = nullptr;
  float* own_ = nullptr;
};

TEST_F(OverlapReportOnCuda, has_the_kernels_that_bypass_issue) {
  StreamPool pool(*device_, {.groups = 2, .log = nullptr});
  auto const step = [&] {
    auto const left = ops::scale(*x_, 2.0F);
    StreamScope const scope(pool[1]);
    auto const right = ops::scale(*x_, 3.0F);
    bypass();
    EXPECT_EQ(to_host(ops::add(std::vector{left, right})).front(), 5.0F);
  };
  for (int round = 0; round < 3; ++round) {
    auto const report = overlap_report(*device_, step);
    if (!has_cupti(report)) {
      GTEST_SKIP() << report.text();
    }
    auto const page = report.html();
    EXPECT_THAT(report.text(), HasSubstr("Recorded in the program, 3 steps, by CUPTI"));
    EXPECT_THAT(report.text(),
                ContainsRegex("6 of [0-9]+ activities are no part of msstream's operations"));
    EXPECT_THAT(page, HasSubstr("bypass_issue"));
    EXPECT_THAT(page, HasSubstr("group 1"));
    expect_sum(report);
  }
}

TEST_F(OverlapReportOnCuda, knows_all_dependencies_of_its_own_operations) {
  auto const step = [&] {
    auto const y = ops::scale(*x_, 2.0F);
    (void)to_host(ops::scale(y, 3.0F));
  };
  step();  // takes memory from the driver
  auto const report = overlap_report(*device_, step);
  if (!has_cupti(report)) {
    GTEST_SKIP() << report.text();
  }
  EXPECT_THAT(report.text(), HasSubstr("by CUPTI"));
  EXPECT_THAT(report.text(), Not(HasSubstr("are no part of")));
  // A recording keeps the memory of its steps, so that later ones may take more from the driver.
  EXPECT_TRUE(report.has("host-synchronization") || report.has("host-busy") ||
              report.has("pageable-copy") || report.has("launch-bound") ||
              report.has("driver-allocation"))
      << report.text();
  // The step is a chain. These would be found if one of its dependencies were not known.
  EXPECT_FALSE(report.has("false-dependency") || report.has("one-stream-two-roles"))
      << report.text();
  expect_sum(report);
}

TEST_F(OverlapReportOnCuda, has_the_kernels_of_a_captured_step) {
  auto const y = to_device(*device_, std::vector<float>(kCount, 0.0F), {kCount});
  auto const train = [&] { copy(y, ops::scale(ops::scale(*x_, 2.0F), 3.0F)); };
  train();
  CapturedStep step(*device_, train);
  step.replay();  // the graph exists before CUPTI begins
  auto const report = overlap_report(*device_, [&] { step.replay(); });
  if (!has_cupti(report)) {
    GTEST_SKIP() << report.text();
  }
  EXPECT_THAT(report.text(), HasSubstr("activities are nodes of graphs"));
  expect_sum(report);
  EXPECT_EQ(to_host(y).front(), 6.0F);
}

TEST_F(OverlapReportOnCuda, leaves_launches_as_fast_as_they_were) {
  auto const before = launch_ns();
  auto const report = overlap_report(*device_, [&] { (void)ops::scale(*x_, 2.0F); });
  if (!has_cupti(report)) {
    GTEST_SKIP() << report.text();
  }
  auto const after = launch_ns();
  std::cout << "a launch took " << before << " ns before the report and " << after
            << " ns after it\n";
  EXPECT_LT(after, 1.5 * before + 500) << "CUPTI records on";
}

TEST_F(OverlapReportOnCuda, takes_events_without_the_recorder_and_says_so) {
  setenv("MSSTREAM_OVERLAP_RECORDER", "/no/such/recorder.so", 1);
  auto const report = overlap_report(*device_, [&] {
    (void)ops::scale(*x_, 2.0F);
    bypass();
  });
  EXPECT_THAT(report.text(), HasSubstr("as CUPTI could not be used"));
  EXPECT_THAT(report.text(), HasSubstr("/no/such/recorder.so"));
  EXPECT_THAT(report.html(), Not(HasSubstr("bypass_issue")));
  expect_sum(report);
}

}  // namespace
}  // namespace msstream::testing
