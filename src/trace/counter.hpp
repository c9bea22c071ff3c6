// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/trace/detail/stack_range.hpp>

#include <cstdint>

namespace msstream::detail {

/// Returns whether the build has the counters of NVTX 3: with the headers of CUDA 13, or with those
/// of the CMake option MSSTREAM_NVTX.
#if MSSTREAM_CUDA
[[nodiscard]] bool has_nvtx_counters() noexcept;
#else
[[nodiscard]] constexpr bool has_nvtx_counters() noexcept {
  return false;
}
#endif

/// A counter that profilers draw as a curve over time, in the NVTX domain "msstream". Without
/// has_nvtx_counters(), and without a tool that listens, it does nothing. Thread-safe.
class Counter {
 public:
  enum class Unit : std::uint8_t { count, bytes };

#if MSSTREAM_CUDA
  /// Makes the counter known to the tool. The name need not outlive the call. Counters with one
  /// name are one counter of the tool, so that whoever has the name next goes on with its curve.
  /// Counters beyond the first 4,096 names do nothing.
  Counter(char const* name, Unit unit) noexcept;
  /// Notes the counter's value now. To be called only if nvtx_listens().
  void sample(std::int64_t value) const noexcept;

 private:
  std::uint64_t id_ = 0;  ///< 0: the tool takes no counters
#else
  Counter(char const*, Unit) noexcept {}
  void sample(std::int64_t) const noexcept {}
#endif
};

}  // namespace msstream::detail
