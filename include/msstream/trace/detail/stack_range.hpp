// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#if MSSTREAM_CUDA
#include <atomic>
#endif

namespace msstream::detail {

#if MSSTREAM_CUDA
/// Whether a tool listens to NVTX: 1 or 0, or -1 before the first question.
inline constinit std::atomic<std::int8_t> nvtx_tool{-1};
/// Starts NVTX, which loads a tool if there is one, and stores in `nvtx_tool` whether it listens.
[[nodiscard]] bool find_nvtx_tool() noexcept;

/// Returns whether a tool listens to NVTX; the answer never changes. Costs a load and a branch.
[[nodiscard]] inline bool nvtx_listens() noexcept {
  auto const known = nvtx_tool.load(std::memory_order_relaxed);
  return known < 0 ? find_nvtx_tool() : known != 0;
}
#else
/// Returns whether a tool listens to NVTX. A build without CUDA has no NVTX.
[[nodiscard]] constexpr bool nvtx_listens() noexcept {
  return false;
}
#endif

/// An NVTX range in the domain "msstream", on the stack of ranges of the calling thread, which must
/// also end it. Costs a branch when no tool listens, and nothing at all in a build without CUDA.
/// `name` must be null-terminated; `category` identifies the stream group. `number`, if it is not
/// 0, is the range's payload: that of an operation is its number on its stream.
class StackRange {
 public:
#if MSSTREAM_CUDA
  explicit StackRange(char const* name,
                      std::uint32_t category = 0,
                      std::uint64_t number = 0) noexcept
      : is_open_(nvtx_listens()) {
    if (is_open_) [[unlikely]] {
      push(name, category, number);
    }
  }
  ~StackRange() {
    if (is_open_) [[unlikely]] {
      pop();
    }
  }
#else
  explicit StackRange(char const*, std::uint32_t = 0, std::uint64_t = 0) noexcept {}
  ~StackRange() = default;
#endif
  StackRange(StackRange const&) = delete;
  StackRange& operator=(StackRange const&) = delete;

#if MSSTREAM_CUDA
 private:
  static void push(char const* name, std::uint32_t category, std::uint64_t number) noexcept;
  static void pop() noexcept;

  bool is_open_;
#endif
};

/// Returns the category of NVTX ranges to which profilers give a name, a new one for a new name.
/// Returns 0, which is no category, if no tool listens, and beyond 4,096 names. Thread-safe.
#if MSSTREAM_CUDA
[[nodiscard]] std::uint32_t category_of(char const* name) noexcept;
#else
[[nodiscard]] inline std::uint32_t category_of(char const*) noexcept {
  return 0;
}
#endif

}  // namespace msstream::detail
