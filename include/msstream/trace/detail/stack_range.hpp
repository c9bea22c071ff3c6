// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::detail {

/// An NVTX range in the domain "msstream", on the stack of ranges of the calling thread, which must
/// also end it. Costs a branch when no tool listens, and nothing at all in a build without CUDA.
/// `name` must be null-terminated; `category` identifies the stream group.
class StackRange {
 public:
#if MSSTREAM_CUDA
  explicit StackRange(char const* name, std::uint32_t category = 0) noexcept;
  ~StackRange();
#else
  explicit StackRange(char const*, std::uint32_t = 0) noexcept {}
  ~StackRange() = default;
#endif
  StackRange(StackRange const&) = delete;
  StackRange& operator=(StackRange const&) = delete;
};

/// Sets the name that profilers show for a category of NVTX ranges.
#if MSSTREAM_CUDA
void name_category(std::uint32_t category, char const* name) noexcept;
#else
inline void name_category(std::uint32_t, char const*) noexcept {}
#endif

}  // namespace msstream::detail
