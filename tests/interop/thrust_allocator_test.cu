// SPDX-License-Identifier: Apache-2.0
#include "interop/cuda_streams.hpp"

#include <msstream/interop/thrust_allocator.cuh>
#include <msstream/memory/device.hpp>

#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

using Resource = MemoryResource<Cuda>;
template <class T>
using Allocator = ThrustAllocator<T, Cuda>;
template <class T>
using Vector = thrust::device_vector<T, Allocator<T>>;

constexpr int kCount = 100'000;

std::vector<std::int32_t> random_keys(unsigned seed, int most) {
  std::minstd_rand random(seed);
  std::vector<std::int32_t> keys(kCount);
  std::generate(keys.begin(), keys.end(), [&] { return static_cast<int>(random()) % most; });
  return keys;
}

class ThrustAllocatorTest : public CudaTest {};

TEST_F(ThrustAllocatorTest, a_vector_lives_in_the_pool) {
  Resource const resource{Device<Cuda>()};
  {
    Vector<std::int32_t> vector(1000, 5, Allocator<std::int32_t>(resource, cudaStream_t{}));
    EXPECT_GE(resource.device().memory_statistics().live_bytes, 4000U);
    vector.resize(5000, 6);
    Vector<std::int32_t> copy = vector;
    thrust::sequence(vector.begin(), vector.end());
    vector.push_back(-1);
    std::swap(vector, copy);
    EXPECT_EQ(vector[999], 5);
    EXPECT_EQ(vector[4999], 6);
    EXPECT_EQ(copy[4999], 4999);
    EXPECT_EQ(copy.back(), -1);
  }
  EXPECT_EQ(resource.device().memory_statistics().live_bytes, 0U);
  EXPECT_GE(resource.device().memory_statistics().allocations, 4U);
}

TEST_F(ThrustAllocatorTest, sort_takes_its_temporary_memory_from_the_pool) {
  Resource const resource{Device<Cuda>()};
  auto keys = random_keys(1, 1 << 30);
  Vector<std::int32_t> sorted(
      keys.begin(), keys.end(), Allocator<std::int32_t>(resource, cudaStream_t{}));
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  auto const before = resource.device().memory_statistics().allocations;
  Allocator<char> scratch(resource, stream());
  thrust::sort(thrust::cuda::par_nosync(scratch).on(stream()), sorted.begin(), sorted.end());
  EXPECT_GT(resource.device().memory_statistics().allocations, before);
  ASSERT_EQ(cudaStreamSynchronize(stream()), cudaSuccess);
  std::sort(keys.begin(), keys.end());
  std::vector<std::int32_t> result(kCount);
  thrust::copy(sorted.begin(), sorted.end(), result.begin());
  EXPECT_EQ(result, keys);
}

TEST_F(ThrustAllocatorTest, reduce_by_key_from_many_threads_on_streams_of_their_own) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 20;
  constexpr int kKeys = 100;
  Resource const resource{Device<Cuda>()};
  std::vector<std::thread> threads;
  std::vector<int> wrong(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      cudaStream_t mine = nullptr;
      cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking);
      Allocator<char> scratch(resource, mine);
      auto const policy = thrust::cuda::par_nosync(scratch).on(mine);
      for (int round = 0; round < kRounds; ++round) {
        auto const keys = random_keys(static_cast<unsigned>(i * kRounds + round + 1), kKeys);
        std::map<std::int32_t, std::int32_t> expected;
        for (auto const key : keys) {
          ++expected[key];
        }
        Allocator<std::int32_t> allocator(resource, mine);
        auto const device_keys = allocator.allocate(kCount);
        auto const ones = allocator.allocate(kCount);
        auto const out_keys = allocator.allocate(kKeys);
        auto const counts = allocator.allocate(kKeys);
        cudaMemcpyAsync(device_keys.get(), keys.data(), 4 * kCount, cudaMemcpyHostToDevice, mine);
        thrust::fill(policy, ones, ones + kCount, 1);
        thrust::sort(policy, device_keys, device_keys + kCount);
        auto const ends = thrust::reduce_by_key(
            policy, device_keys, device_keys + kCount, ones, out_keys, counts);
        auto const found = static_cast<std::size_t>(ends.first - out_keys);
        std::vector<std::int32_t> host_keys(found);
        std::vector<std::int32_t> host_counts(found);
        cudaMemcpyAsync(host_keys.data(), out_keys.get(), 4 * found, cudaMemcpyDeviceToHost, mine);
        cudaMemcpyAsync(host_counts.data(), counts.get(), 4 * found, cudaMemcpyDeviceToHost, mine);
        cudaStreamSynchronize(mine);
        wrong[i] += found == expected.size() ? 0 : 1;
        for (std::size_t key = 0; key < found; ++key) {
          wrong[i] += expected[host_keys[key]] == host_counts[key] ? 0 : 1;
        }
        allocator.deallocate(device_keys, kCount);
        allocator.deallocate(ones, kCount);
        allocator.deallocate(out_keys, kKeys);
        allocator.deallocate(counts, kKeys);
      }
      cudaStreamDestroy(mine);
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, std::vector<int>(kThreads));
  EXPECT_EQ(resource.device().memory_statistics().live_bytes, 0U);
}

TEST_F(ThrustAllocatorTest, refuses_more_elements_than_bytes_can_be_counted) {
  Resource const resource{Device<Cuda>()};
  Allocator<double> allocator(resource, stream());
  EXPECT_THROW(static_cast<void>(allocator.allocate(~std::size_t{0} / 4)),
               std::bad_array_new_length);
}

}  // namespace
}  // namespace msstream::testing
