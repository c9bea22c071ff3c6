// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/tensor/detail/any_tensor.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace msstream::detail {

/// The address range of a tensor's elements. The range of a view is within that of the whole
/// tensor.
struct MemoryRange {
  std::uintptr_t begin;
  std::uintptr_t end;

  [[nodiscard]] static MemoryRange of(AnyTensor const& tensor) noexcept {
    auto const begin = reinterpret_cast<std::uintptr_t>(tensor.data());
    return {begin, begin + tensor.bytes()};
  }
  [[nodiscard]] bool contains(MemoryRange const& other) const noexcept {
    return begin <= other.begin && other.end <= end;
  }
  [[nodiscard]] bool overlaps(MemoryRange const& other) const noexcept {
    return std::max(begin, other.begin) < std::min(end, other.end);
  }
  /// Returns the addresses that both ranges contain. The ranges must overlap.
  [[nodiscard]] MemoryRange common(MemoryRange const& other) const noexcept {
    return {std::max(begin, other.begin), std::min(end, other.end)};
  }
  friend bool operator==(MemoryRange const&, MemoryRange const&) = default;
};

/// Returns the number of bytes in the union of the ranges; bytes in several ranges count once.
[[nodiscard]] inline std::uintptr_t bytes_of_union(std::vector<MemoryRange> ranges) {
  std::ranges::sort(ranges, {}, &MemoryRange::begin);
  std::uintptr_t bytes = 0;
  std::uintptr_t counted = 0;  // all bytes below it are counted
  for (auto const& range : ranges) {
    auto const begin = std::max(range.begin, counted);
    bytes += std::max(range.end, begin) - begin;
    counted = std::max(range.end, begin);
  }
  return bytes;
}

}  // namespace msstream::detail
