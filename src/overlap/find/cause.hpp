// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace msstream::overlap {

/// Why time on a device was lost. The order is the precedence: time that several causes explain
/// counts for the first of them.
enum class Cause : std::uint8_t {
  recording_overhead,    ///< the tool that recorded held up the program
  lazy_loading,          ///< a module or function was loaded or compiled
  driver_allocation,     ///< cudaMalloc(), cudaFree(), cudaHostAlloc(): on the path
  pageable_copy,         ///< a copy from or to pageable memory held up the host or its stream
  host_synchronization,  ///< the host waited for the device before it issued more
  legacy_stream,         ///< the legacy default stream, or streams that wait for it
  queue_is_full,         ///< the launch queue had no room
  launch_bound,          ///< calls take longer than the work that they issue
  host_busy,             ///< the host did something else than calls: input, an interpreter
  peer_skew,             ///< a collective waited for another rank
  collective_order,      ///< a collective waited for another one of the same communicator
  collective_holds_sms,  ///< a collective's blocks kept other kernels off the multiprocessors
  copy_engine,           ///< a copy waited for another copy of the same direction
  hardware_queue,        ///< two streams shared a hardware queue
  priority_cannot_help,  ///< work of a high priority waited for running blocks of a low one
  multiprocessors_full,  ///< a kernel left no room for another one
  false_dependency,      ///< a wait for more than what was needed
  one_stream_two_roles,  ///< independent work was issued to one stream
  short_kernels,         ///< queued work is short beside the steps between one and the next
  true_dependency,       ///< the work needed what ran
  bandwidth_shared,      ///< activities ran at once and each took longer
  unknown,               ///< cannot be told from what was recorded
};
inline constexpr int kCauses = static_cast<int>(Cause::unknown) + 1;

/// Returns whether the fix of a cause only lets the host issue work earlier.
[[nodiscard]] constexpr bool is_of_host(Cause cause) noexcept {
  switch (cause) {
    case Cause::recording_overhead:
    case Cause::lazy_loading:
    case Cause::driver_allocation:
    case Cause::host_synchronization:
    case Cause::queue_is_full:
    case Cause::launch_bound:
    case Cause::host_busy:
      return true;
    default:
      return false;
  }
}

/// The name of a cause in reports, options and JSON.
struct CauseText {
  Cause cause;
  std::string_view id;     ///< such as "launch-bound"; also the anchor in docs/overlap.md
  std::string_view title;  ///< such as "The host launches too slowly"
};

/// Returns the texts of all causes, in the order of Cause.
[[nodiscard]] std::span<CauseText const> cause_texts() noexcept;
[[nodiscard]] CauseText const& text_of(Cause cause) noexcept;
[[nodiscard]] std::optional<Cause> cause_of(std::string_view id) noexcept;

}  // namespace msstream::overlap
