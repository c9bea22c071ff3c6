// SPDX-License-Identifier: Apache-2.0
// Tests on which multiprocessors the kernels of a pool's groups run.
#include <msstream/msstream.hpp>

#include <cuda_runtime_api.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

namespace msstream::testing {
namespace {

using Multiprocessors = std::set<std::int32_t>;

constexpr std::int64_t kBlocks = 4096;

/// Writes the number of the multiprocessor that runs each block. Each block runs long enough for
/// the blocks to spread over all multiprocessors that the stream may use.
__global__ void write_own_multiprocessor(std::int32_t* to) {
  std::uint32_t own;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(own));
  constexpr std::int64_t kClocks = 10'000;
  for (auto const begin = clock64(); clock64() - begin < kClocks;) {
  }
  to[blockIdx.x] = static_cast<std::int32_t>(own);
}

class SmPartitions : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Cuda::device_count() == 0) {
      GTEST_SKIP() << "no CUDA device";
    }
    device_.emplace();
    if (most() < 2) {
      GTEST_SKIP() << "the device, or its driver, cannot split its multiprocessors";
    }
  }

  [[nodiscard]] Device<Cuda> const& device() const { return *device_; }
  [[nodiscard]] int most() const { return device().runtime().most_sm_parts(); }
  [[nodiscard]] StreamPool<Cuda> pool(int groups, int partitions, bool merged = true) const {
    return StreamPool<Cuda>(
        device(), {.groups = groups, .merge_streams = merged, .sm_partitions = partitions});
  }
  /// Runs the kernel on the current group. used() returns the multiprocessors from the result.
  [[nodiscard]] Tensor<std::int32_t, Cuda> run() const {
    Tensor<std::int32_t, Cuda> own(device(), {kBlocks});
    run(own);
    return own;
  }
  static void run(Tensor<std::int32_t, Cuda> const& own) {
    issue("own_multiprocessor", writes(own), [to = own.data()](CudaStream stream) {
      write_own_multiprocessor<<<kBlocks, 32, 0, stream>>>(to);
      if (auto const code = cudaGetLastError(); code != cudaSuccess) {
        throw std::runtime_error(cudaGetErrorString(code));
      }
    });
  }
  static Multiprocessors used(Tensor<std::int32_t, Cuda> const& own) {
    auto const all = to_host(own);
    return {all.begin(), all.end()};
  }
  [[nodiscard]] Multiprocessors used_by(StreamGroup<Cuda> const& group) const {
    StreamScope const scope(group);
    return used(run());
  }
  static bool are_disjoint(Multiprocessors const& a, Multiprocessors const& b) {
    return std::ranges::none_of(a, [&](auto one) { return b.contains(one); });
  }

 private:
  std::optional<Device<Cuda>> device_;
};

TEST_F(SmPartitions, groups_of_different_parts_share_no_multiprocessor) {
  auto const all = used_by(pool(1, 1)[0]);
  for (int const parts : {2, 3, most()}) {
    SCOPED_TRACE(parts);
    auto const split = pool(parts, parts);
    std::vector<Multiprocessors> used;
    for (int i = 0; i < parts; ++i) {
      used.push_back(used_by(split[i]));
      EXPECT_EQ(used.back().size(), used.front().size()) << "parts are equal";
      EXPECT_LE(used.back().size() * static_cast<std::size_t>(parts), all.size());
      for (int j = 0; j < i; ++j) {
        EXPECT_TRUE(are_disjoint(used[static_cast<std::size_t>(j)], used.back())) << i << ", " << j;
      }
    }
  }
}

TEST_F(SmPartitions, groups_beyond_the_parts_go_round) {
  auto const split = pool(5, 2, /*merged=*/false);
  auto const first = used_by(split[0]);
  auto const second = used_by(split[1]);
  EXPECT_TRUE(are_disjoint(first, second));
  EXPECT_EQ(used_by(split[2]), first);
  EXPECT_EQ(used_by(split[3]), second);
  EXPECT_EQ(used_by(split[4]), first);
}

TEST_F(SmPartitions, what_was_captured_keeps_to_its_part_on_any_group) {
  auto const split = pool(2, 2);
  auto const whole = pool(1, 1);
  auto const first = used_by(split[0]);
  auto const second = used_by(split[1]);
  Tensor<std::int32_t, Cuda> const of_first(device(), {kBlocks});
  Tensor<std::int32_t, Cuda> const of_second(device(), {kBlocks});
  CapturedStep<Cuda> step(device(), [&] {
    {
      StreamScope const scope(split[0]);
      run(of_first);
    }
    StreamScope const scope(split[1]);
    run(of_second);
  });
  for (auto* const group : {&split[0], &split[1], &whole[0]}) {
    StreamScope const scope(*group);
    fill_bytes(of_first, 0xFF);
    fill_bytes(of_second, 0xFF);
    step.replay();
    EXPECT_EQ(used(of_first), first);
    EXPECT_EQ(used(of_second), second);
  }
}

TEST_F(SmPartitions, operations_on_different_parts_are_ordered_as_any) {
  auto const split = pool(2, 2);
  Tensor<std::int32_t, Cuda> const own(device(), {kBlocks});
  for (int round = 0; round < 20; ++round) {
    {
      StreamScope const scope(split[0]);
      run(own);
    }
    StreamScope const scope(split[1]);
    fill_bytes(own, 0xFF);
    EXPECT_EQ(used(own), Multiprocessors{-1}) << "the kernel before takes longer";
  }
}

TEST_F(SmPartitions, spared_multiprocessors_are_left_by_all_groups) {
  auto const all = used_by(pool(1, 1)[0]);
  StreamPool<Cuda> const sparing(
      device(), {.groups = 3, .merge_streams = true, .sm_partitions = 2, .spared_sms = 16});
  Multiprocessors used;
  for (int group = 0; group < 3; ++group) {
    auto const own = used_by(sparing[group]);
    EXPECT_FALSE(own.empty());
    used.insert(own.begin(), own.end());
  }
  EXPECT_LE(used.size() + 16, all.size());
  EXPECT_TRUE(std::ranges::includes(all, used));
  StreamPool<Cuda> const one(device(), {.groups = 1, .spared_sms = 1});
  EXPECT_LT(used_by(one[0]).size(), all.size());
}

TEST_F(SmPartitions, more_parts_than_there_are_is_an_error_that_says_how_many) {
  try {
    static_cast<void>(pool(1, 256));
    FAIL() << "did not throw";
  } catch (std::invalid_argument const& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("expected 1 to " + std::to_string(most())));
  }
  EXPECT_FALSE(used_by(pool(1, 2)[0]).empty());
}

}  // namespace
}  // namespace msstream::testing
