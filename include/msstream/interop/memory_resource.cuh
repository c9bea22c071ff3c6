// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/raw_allocator.hpp>

// CCCL before 3.1 hides its memory resources behind a macro, which must be defined before the first
// inclusion of a header of CCCL.
#ifndef LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#endif

#include <cuda/memory_resource>
#include <cuda/stream_ref>
#include <cuda_runtime_api.h>

#include <concepts>
#include <cstddef>
#include <memory>
#include <utility>

namespace msstream {

/// Returns the CUDA stream that a handle denotes in the including file: if the file is compiled
/// with one default stream per thread, the null handle denotes the calling thread's default stream.
[[nodiscard]] inline cudaStream_t stream_meant_by(cudaStream_t handle) noexcept {
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
  return handle == nullptr ? cudaStreamPerThread : handle;
#else
  return handle;
#endif
}

/// A memory resource of CCCL that allocates from a Device, for every function that takes a
/// cuda::mr::async_resource_with<device_accessible> (CCCL 3.0) or a
/// cuda::mr::resource_with<device_accessible> (3.1 and later).
///
/// Copies share one resource, compare equal, and keep the device alive. Memory is ordered on
/// streams as RawAllocator describes. Deallocating memory that the resource did not allocate ends
/// the program. Thread-safe.
template <InteropRuntime R = DefaultRuntime>
  requires std::same_as<typename R::native_stream, cudaStream_t>
class MemoryResource {
 public:
  /// Makes a resource that allocates from the device's memory, and keeps the device alive.
  explicit MemoryResource(Device<R> device)
      : memory_(std::make_shared<RawAllocator<R>>(std::move(device))) {}

  // Functions that memory resources have in CCCL 3.1 and later.
  /// Returns memory for work on the stream from here on; without a stream, for any use, and blocks
  /// for it if necessary. Throws OutOfMemory.
  [[nodiscard]] void* allocate(cuda::stream_ref stream, std::size_t bytes, std::size_t alignment) {
    return memory_->allocate(bytes, alignment, stream_meant_by(stream.get()));
  }
  /// Frees memory after all work that is on the stream now, without blocking; without a stream,
  /// memory whose uses are all complete.
  void deallocate(cuda::stream_ref stream, void* memory, std::size_t, std::size_t) noexcept {
    memory_->deallocate(memory, stream_meant_by(stream.get()));
  }
  /// Returns memory that any stream and the host may use at once. May block the host.
  [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment) {
    return memory_->allocate(bytes, alignment);
  }
  /// Frees memory whose uses are all complete.
  void deallocate_sync(void* memory, std::size_t, std::size_t) noexcept {
    memory_->deallocate(memory);
  }

  // Functions that memory resources have in CCCL before 3.1.
  /// Returns memory for work on the stream from here on, as allocate() does.
  [[nodiscard]] void* allocate_async(std::size_t bytes,
                                     std::size_t alignment,
                                     cuda::stream_ref stream) {
    return allocate(stream, bytes, alignment);
  }
  /// Frees memory after all work that is on the stream now, as deallocate() does.
  void deallocate_async(void* memory,
                        std::size_t bytes,
                        std::size_t alignment,
                        cuda::stream_ref stream) noexcept {
    deallocate(stream, memory, bytes, alignment);
  }
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment) {
    return allocate_sync(bytes, alignment);
  }
  void deallocate(void* memory, std::size_t bytes, std::size_t alignment) noexcept {
    deallocate_sync(memory, bytes, alignment);
  }

  /// Records that `stream` uses the memory, too, so that its next owner waits for the work that is
  /// on the stream at deallocation.
  void record_use(void* memory, cuda::stream_ref stream) {
    memory_->record_use(memory, stream_meant_by(stream.get()));
  }
  /// Returns the device whose memory the resource gives out.
  [[nodiscard]] Device<R> const& device() const noexcept { return memory_->device(); }

  friend bool operator==(MemoryResource const&, MemoryResource const&) = default;
  friend void get_property(MemoryResource const&, cuda::mr::device_accessible) noexcept {}

 private:
  std::shared_ptr<RawAllocator<R>> memory_;
};

}  // namespace msstream
