// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::trace {

/// An NVTX range in the domain "msstream" on the calling thread; costs a branch when no tool
/// listens, and nothing at all in a build without CUDA. `name` must be null-terminated; `category`
/// tells the stream group.
class Range {
 public:
#if MSSTREAM_CUDA
  [[nodiscard("without a name the guard goes at once")]] explicit Range(
      char const* name, std::uint32_t category = 0) noexcept;
  ~Range();
#else
  [[nodiscard("without a name the guard goes at once")]] explicit Range(
      char const*, std::uint32_t = 0) noexcept {}
  ~Range() = default;
#endif
  Range(Range const&) = delete;
  Range& operator=(Range const&) = delete;
};

/// Gives a category the name that tools show for it.
#if MSSTREAM_CUDA
void name_category(std::uint32_t category, char const* name) noexcept;
#else
inline void name_category(std::uint32_t, char const*) noexcept {}
#endif

}  // namespace msstream::trace
