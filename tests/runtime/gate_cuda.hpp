// SPDX-License-Identifier: Apache-2.0
#pragma once

#if MSSTREAM_CUDA

#include <msstream/runtime/detail/sync_watch.hpp>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>

namespace msstream::testing {

/// A gate for CUDA streams: a word of pinned memory for whose value a stream waits
/// (cuStreamWaitValue32). A waiting stream runs neither a kernel nor a host function.
class CudaGate {
 public:
  CudaGate() : word_(next_word()) {}

  void hold(CUstream_st* stream) const {
    if (wait_value()(stream, reinterpret_cast<CUdeviceptr>(word_), 1, CU_STREAM_WAIT_VALUE_GEQ) !=
        CUDA_SUCCESS) {
      throw std::runtime_error("cuStreamWaitValue32 failed");
    }
  }
  void open() const { std::atomic_ref<std::uint32_t>(*word_).store(1, std::memory_order_release); }

 private:
  using WaitValue = decltype(&cuStreamWaitValue32);

  static WaitValue wait_value() {
    static WaitValue const function = [] {
      void* found = nullptr;
      cudaDriverEntryPointQueryResult result{};
      if (cudaGetDriverEntryPointByVersion(
              "cuStreamWaitValue32", &found, 12000, cudaEnableDefault, &result) != cudaSuccess ||
          result != cudaDriverEntryPointSuccess) {
        throw std::runtime_error("the driver has no cuStreamWaitValue32");
      }
      return reinterpret_cast<WaitValue>(found);
    }();
    return function;
  }
  /// Returns an unused word of pinned memory. The words are never freed, because freeing pinned
  /// memory waits for the streams that gates hold.
  static std::uint32_t* next_word() {
    constexpr std::size_t kWords = 1U << 20U;
    static std::uint32_t* const words = [] {
      void* memory = nullptr;
      msstream::detail::OwnCall const of_the_test;
      if (cudaHostAlloc(&memory, kWords * sizeof(std::uint32_t), cudaHostAllocPortable) !=
          cudaSuccess) {
        throw std::runtime_error("no pinned memory for gates");
      }
      return new (memory) std::uint32_t[kWords]{};
    }();
    static std::atomic<std::size_t> taken{0};
    auto const index = taken.fetch_add(1);
    if (index >= kWords) {
      throw std::runtime_error("more gates than words for them");
    }
    return words + index;
  }

  std::uint32_t* word_;
};

}  // namespace msstream::testing

#endif
