// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// Divides a workspace into arrays, one after the other. If constructed without memory, only counts
/// bytes, so that the requested size is exactly the size that is used.
class WorkspaceLayout {
 public:
  explicit WorkspaceLayout(void* memory) : memory_(static_cast<std::byte*>(memory)) {}

  template <class T>
  T* take(std::int64_t count) {
    auto const at = bytes_;
    auto const taken = static_cast<std::size_t>(count) * sizeof(T);
    bytes_ += (taken + kAlignment - 1) / kAlignment * kAlignment;
    return memory_ != nullptr ? reinterpret_cast<T*>(memory_ + at) : nullptr;
  }
  /// Takes memory for the workspace of a nested operation, of the size in bytes that the nested
  /// operation requests.
  void* take_bytes(std::size_t count) { return take<std::byte>(static_cast<std::int64_t>(count)); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kAlignment = 256;

  std::byte* memory_;
  std::size_t bytes_ = 0;
};

}  // namespace msstream::ops::kernels
