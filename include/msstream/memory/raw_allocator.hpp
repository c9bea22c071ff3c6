// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/any_raw_allocator.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/runtime/interop.hpp>

#include <cstddef>
#include <utility>

namespace msstream {

/// Allocates the device's memory as plain pointers, for streams that msstream did not make: the
/// base of allocator interfaces for other libraries.
///
/// Stream-ordered like cudaMallocAsync: memory is for work put on the allocating stream from now
/// on, and deallocated memory is free after all work that is on the deallocating stream by then.
/// The stream of the next owner waits at once, on the device, for all uses that the owner must
/// follow, because work on such streams is not tracked. A stream may be destroyed as soon as the
/// memory has been deallocated on it, with work in flight. Allocation in a capture is refused,
/// because the graph would use the memory again after it has a new owner. Memory counts in the
/// device's statistics, in the calling thread's name scope. Thread-safe.
template <InteropRuntime R = DefaultRuntime>
class RawAllocator {
 public:
  using Native = typename R::native_stream;  ///< such as cudaStream_t
  /// The alignment in bytes of all memory that the allocator returns.
  static constexpr std::size_t kAlignment = detail::AnyRawAllocator::kAlignment;

  /// Makes an allocator of the device's memory, and keeps the device alive.
  explicit RawAllocator(Device<R> device) : device_(std::move(device)), engine_(device_.engine()) {}
  RawAllocator(RawAllocator const&) = delete;
  RawAllocator& operator=(RawAllocator const&) = delete;
  /// Frees all memory that is still allocated, as deallocate(memory) does.
  ~RawAllocator() = default;

  /// Returns memory for work put on `stream` from now on; null for zero bytes. Does not block the
  /// host, unless memory is short. Throws OutOfMemory, std::invalid_argument if the alignment is
  /// not a power of two, and std::logic_error while the stream is captured.
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment, Native stream) {
    return engine_.allocate(bytes, alignment, stream);
  }
  /// Returns memory that any stream and the host may use at once. If the last uses of the memory
  /// are not complete, blocks the host until they are.
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = kAlignment) {
    return engine_.allocate(bytes, alignment);
  }

  /// Frees the memory after all work that is by now on `stream`, and on the streams of
  /// record_use(). Does not block. Ignores null. Throws std::invalid_argument for a pointer that is
  /// not memory of this allocator, or was deallocated before.
  void deallocate(void* memory, Native stream) { engine_.deallocate(memory, stream); }
  /// Frees memory whose uses are complete, except for uses on the streams of record_use().
  void deallocate(void* memory) { engine_.deallocate(memory); }

  /// Records that `stream` uses the memory, too. The stream must exist until deallocation.
  void record_use(void* memory, Native stream) { engine_.record_use(memory, stream); }

  /// Returns whether the pointer is memory that this allocator has allocated and not freed.
  [[nodiscard]] bool has(void* memory) { return engine_.has(memory); }
  /// Returns the device whose memory it gives out.
  [[nodiscard]] Device<R> const& device() const noexcept { return device_; }

 private:
  Device<R> device_;
  detail::AnyRawAllocator engine_;
};

}  // namespace msstream
