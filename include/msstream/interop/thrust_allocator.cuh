// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/interop/memory_resource.cuh>

#include <thrust/device_ptr.h>
#include <thrust/device_reference.h>

#include <cstddef>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

namespace msstream {

/// An allocator for Thrust that takes memory from a MemoryResource, on one stream.
///
///     ThrustAllocator<std::byte> scratch(resource, stream);
///     thrust::sort(thrust::cuda::par_nosync(scratch).on(stream), begin, end);
///
/// When an algorithm returns, its temporary memory may be allocated again: later uses follow the
/// algorithm's kernels. A `thrust::device_vector<T, ThrustAllocator<T>>` initialises its elements
/// on Thrust's default stream, `cudaStream_t{}`: construct its allocator with that stream. Other
/// streams, passed in an execution policy, may use the vector after they wait for the default
/// stream.
///
/// Thrust prescribes the types of an allocator: `pointer`, `const_pointer`, `reference` and
/// `const_reference` are to memory of the device, `size_type` and `difference_type` count elements.
/// A container that is copied, moved or swapped takes the other one's allocator with its elements:
/// `propagate_on_container_copy_assignment`, `propagate_on_container_move_assignment` and
/// `propagate_on_container_swap` are true.
template <class T, InteropRuntime R = DefaultRuntime>
class ThrustAllocator {
 public:
  using value_type = T;
  using pointer = thrust::device_ptr<T>;
  using const_pointer = thrust::device_ptr<T const>;
  using reference = thrust::device_reference<T>;
  using const_reference = thrust::device_reference<T const>;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  template <class U>
  struct rebind {
    using other = ThrustAllocator<U, R>;  ///< for elements of another type, U
  };

  /// Makes an allocator of the resource whose memory is used on the stream.
  ThrustAllocator(MemoryResource<R> resource, cudaStream_t stream)
      : resource_(std::move(resource)), stream_(stream_meant_by(stream)) {}
  template <class U>
  ThrustAllocator(ThrustAllocator<U, R> const& other)  // NOLINT(google-explicit-constructor)
      : resource_(other.resource()), stream_(other.stream()) {}

  /// Returns memory for `count` elements, for work on stream() from here on. Throws OutOfMemory.
  [[nodiscard]] pointer allocate(size_type count) {
    if (count > std::numeric_limits<size_type>::max() / sizeof(T)) {
      throw std::bad_array_new_length();
    }
    return pointer(static_cast<T*>(resource_.allocate(stream_, count * sizeof(T), alignof(T))));
  }
  /// Frees memory after all work that is on stream() now.
  void deallocate(pointer memory, size_type count) noexcept {
    resource_.deallocate(stream_, memory.get(), count * sizeof(T), alignof(T));
  }

  /// Returns the resource that gives the memory.
  [[nodiscard]] MemoryResource<R> const& resource() const noexcept { return resource_; }
  /// Returns the stream on which the memory is used.
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }
  friend bool operator==(ThrustAllocator const&, ThrustAllocator const&) = default;

 private:
  MemoryResource<R> resource_;
  cudaStream_t stream_;
};

}  // namespace msstream
