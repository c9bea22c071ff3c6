// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/any_device.hpp>

#include <cstddef>
#include <memory>

namespace msstream::detail {

/// The implementation of RawAllocator<R>, compiled once for all runtimes; RawAllocator documents
/// the functions. A stream is passed as the native handle of the device's runtime. Thread-safe.
class AnyRawAllocator {
 public:
  static constexpr std::size_t kAlignment = 256;

  explicit AnyRawAllocator(AnyDevice const& device);
  AnyRawAllocator(AnyRawAllocator const&) = delete;
  AnyRawAllocator& operator=(AnyRawAllocator const&) = delete;
  ~AnyRawAllocator();

  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment, NativeStream stream);
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment);
  void deallocate(void* memory, NativeStream stream);
  void deallocate(void* memory);
  void record_use(void* memory, NativeStream stream);
  [[nodiscard]] bool has(void* memory);

 private:
  class State;
  std::unique_ptr<State> const state_;
};

}  // namespace msstream::detail
