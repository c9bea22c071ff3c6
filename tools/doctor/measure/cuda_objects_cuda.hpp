// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/check_cuda.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>

/// Owners of CUDA objects. Constructors throw CudaError. Destructors ignore failures.
namespace msstream::doctor {

using detail::check_cuda;

class OwnedStream {
 public:
  OwnedStream() {
    check_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0),
               "cudaStreamCreateWithPriority");
  }
  OwnedStream(OwnedStream&& other) noexcept : stream_(other.stream_) { other.stream_ = nullptr; }
  OwnedStream(OwnedStream const&) = delete;
  OwnedStream& operator=(OwnedStream const&) = delete;
  ~OwnedStream() {
    if (stream_ != nullptr) {
      static_cast<void>(cudaStreamDestroy(stream_));
    }
  }
  [[nodiscard]] cudaStream_t get() const noexcept { return stream_; }
  void synchronize() const { check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// An event that records its time.
class OwnedEvent {
 public:
  OwnedEvent() {
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDefault), "cudaEventCreateWithFlags");
  }
  OwnedEvent(OwnedEvent const&) = delete;
  OwnedEvent& operator=(OwnedEvent const&) = delete;
  ~OwnedEvent() { static_cast<void>(cudaEventDestroy(event_)); }
  [[nodiscard]] cudaEvent_t get() const noexcept { return event_; }
  void record(OwnedStream const& stream) const {
    check_cuda(cudaEventRecord(event_, stream.get()), "cudaEventRecord");
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Memory of the current device.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes) { check_cuda(cudaMalloc(&memory_, bytes), "cudaMalloc"); }
  DeviceBytes(DeviceBytes const&) = delete;
  DeviceBytes& operator=(DeviceBytes const&) = delete;
  ~DeviceBytes() { static_cast<void>(cudaFree(memory_)); }
  [[nodiscard]] void* get() const noexcept { return memory_; }

 private:
  void* memory_ = nullptr;
};

class PinnedBytes {
 public:
  explicit PinnedBytes(std::size_t bytes) {
    check_cuda(cudaHostAlloc(&memory_, bytes, cudaHostAllocDefault), "cudaHostAlloc");
  }
  PinnedBytes(PinnedBytes const&) = delete;
  PinnedBytes& operator=(PinnedBytes const&) = delete;
  ~PinnedBytes() { static_cast<void>(cudaFreeHost(memory_)); }
  [[nodiscard]] void* get() const noexcept { return memory_; }

 private:
  void* memory_ = nullptr;
};

}  // namespace msstream::doctor
