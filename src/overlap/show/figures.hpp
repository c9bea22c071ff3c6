// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::overlap {

/// The kinds of a device's work that are told apart. In this order each hides those after it: time
/// in which a kernel runs is never exposed time of a copy.
enum class WorkKind : std::uint8_t {
  kernels,  ///< also whole graphs; without those of collectives
  fills,
  collectives,
  copies,
};
inline constexpr std::size_t kWorkKinds = 4;

/// The time of a part of a device's work. All times are lengths of unions of intervals.
struct WorkTime {
  std::size_t activities = 0;
  Ns busy = 0;            ///< with any of them
  Ns exposed = 0;         ///< with any of them, and no work of a kind before theirs
  Ns beside_kernels = 0;  ///< with any of them, and a kernel; 0 for kernels themselves
};

/// The time of copies in one direction.
struct CopyTime {
  CopyDirection direction = CopyDirection::unknown;
  WorkTime time;
  std::int64_t bytes = 0;  ///< moved in the window; kUnknown if those of a copy are
};

/// The time of one stream; it idles in the rest of the window.
struct StreamTime {
  Index stream = kNone;
  std::size_t activities = 0;
  Ns busy = 0;
  Ns alone = 0;  ///< while no other stream of the device has work that runs
};

/// How long the kinds of work and the streams of one device were busy in a window.
struct Figures {
  /// The exposed times of all kinds add up to the busy time of the device.
  std::array<WorkTime, kWorkKinds> work{};
  std::vector<CopyTime> copies;     ///< by direction, those that have activities
  std::vector<StreamTime> streams;  ///< those that have activities, in the recording's order

  [[nodiscard]] WorkTime const& of(WorkKind kind) const {
    return work[static_cast<std::size_t>(kind)];
  }
};

/// Returns the figures of a device in a window of a recording, which must be sorted.
[[nodiscard]] Figures figures_of(Recording const& recording, Interval window, Index device);

/// Returns a direction of copies with the rate while any of them runs, such as "h2d at 23.1 GB/s";
/// without the rate if the bytes are unknown, or so few for a copy that its start takes the time.
[[nodiscard]] std::string copies_text(CopyTime const& copies);

/// Returns the kind's name in JSON, and in texts: "kernels", "fills", "collectives", "copies".
[[nodiscard]] std::string_view id_of(WorkKind kind) noexcept;
/// Returns the direction's name in JSON: "h2d", "d2h", "d2d", "peer", "h2h" or "unknown".
[[nodiscard]] std::string_view id_of(CopyDirection direction) noexcept;

}  // namespace msstream::overlap
