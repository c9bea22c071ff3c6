// SPDX-License-Identifier: Apache-2.0
// Runs the stress test of memory reuse with kernels that take random times and check the tags on
// the GPU.
#include "base/many.hpp"
#include "memory/reuse/tagged_stress.hpp"

#include <msstream/runtime/cuda.hpp>

#include <cuda_runtime_api.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>

namespace msstream::testing {
namespace {

constexpr std::int64_t kThreadsPerBlock = 128;

/// Delays a kernel, so that work that fails to wait for it overtakes its reads and writes.
__device__ void spin(std::int64_t nanoseconds) {
  auto const now = [] {
    std::int64_t time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
  };
  for (auto const begin = now(); now() - begin < nanoseconds;) {
  }
}
/// Waits for the kernel's delay and finds the word that the calling GPU thread accesses. Returns
/// false past the last word.
__device__ bool find_word(TaggedWords const& of, std::int64_t& word) {
  word = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * of.stride;
  spin(of.delay_ns);
  return word < of.count;
}

__global__ void write_tags(TaggedWords to, std::int64_t tag) {
  std::int64_t word;
  if (find_word(to, word)) {
    to.words[word] = tag;
  }
}
__global__ void copy_tags(TaggedWords to, std::int64_t const* from) {
  std::int64_t word;
  if (find_word(to, word)) {
    to.words[word] = from[word];
  }
}
__global__ void check_tags(TaggedWords of, std::int64_t tag, std::int64_t* mismatches) {
  std::int64_t word;
  if (find_word(of, word) && of.words[word] != tag) {
    // Counts mismatches in pinned memory that the library does not track: a tensor that all streams
    // write would order the streams.
    atomicAdd(reinterpret_cast<unsigned long long*>(mismatches), 1ULL);
  }
}

struct CudaTagKernels {
  static void write(CudaStream stream, TaggedWords to, std::int64_t tag) {
    write_tags<<<blocks_for(to), kThreadsPerBlock, 0, stream>>>(to, tag);
    check_launch();
  }
  static void copy(CudaStream stream, TaggedWords to, std::int64_t const* from) {
    copy_tags<<<blocks_for(to), kThreadsPerBlock, 0, stream>>>(to, from);
    check_launch();
  }
  static void check(CudaStream stream, TaggedWords of, std::int64_t tag, std::int64_t* mismatches) {
    check_tags<<<blocks_for(of), kThreadsPerBlock, 0, stream>>>(of, tag, mismatches);
    check_launch();
  }

 private:
  static unsigned blocks_for(TaggedWords const& of) {
    auto const touched = (of.count + of.stride - 1) / of.stride;
    return static_cast<unsigned>((touched + kThreadsPerBlock - 1) / kThreadsPerBlock);
  }
  static void check_launch() {
    if (auto const code = cudaGetLastError(); code != cudaSuccess) {
      throw std::runtime_error(cudaGetErrorString(code));
    }
  }
};

/// A CUDA runtime that leaves out the waits between streams.
class CudaWithoutWaits : public Cuda {
 public:
  using Cuda::Cuda;
  void wait(native_stream, native_event) {}
};
static_assert(Runtime<CudaWithoutWaits>);

class CudaReuseStress : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Cuda::device_count() == 0) {
      GTEST_SKIP() << "no CUDA device";
    }
  }
};

TEST_F(CudaReuseStress, a_million_operations_on_small_blocks_see_their_own_tags) {
  auto const options = stress_of_small_blocks(many(1'000'000));
  expect_own_tags(tagged_stress<Cuda, CudaTagKernels>(options), options);
}

TEST_F(CudaReuseStress, operations_on_blocks_that_are_cut_and_join_see_their_own_tags) {
  auto const options = stress_of_large_blocks(many(100'000));
  expect_own_tags(tagged_stress<Cuda, CudaTagKernels>(options), options);
}

TEST_F(CudaReuseStress, without_waits_operations_see_the_tags_of_others) {
  auto const outcome = tagged_stress<CudaWithoutWaits, CudaTagKernels>(stress_without_order());
  EXPECT_GT(outcome.mismatches, 0);
}

}  // namespace
}  // namespace msstream::testing
