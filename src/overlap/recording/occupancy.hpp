// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

#include <cstdint>
#include <optional>

namespace msstream::overlap {

/// The number of multiprocessors of a device whose recording does not tell: more than most have, so
/// that kernels count as filling a device only if they certainly do.
inline constexpr int kAssumedSms = 148;

/// The resource that limits how many blocks of a kernel a multiprocessor holds at once.
enum class SmResource : std::uint8_t { blocks, threads, registers, shared_memory };
[[nodiscard]] char const* text_of(SmResource resource) noexcept;

/// How much of a device a kernel takes.
struct Occupancy {
  std::int64_t blocks = 0;         ///< of the grid
  std::int64_t blocks_per_sm = 0;  ///< that fit on one multiprocessor at once
  SmResource limit = SmResource::blocks;
  int sms = 0;
  double register_share = 0;  ///< the part of a multiprocessor's registers that its blocks have

  /// Whether all blocks of the grid together leave no room on any multiprocessor.
  [[nodiscard]] bool fills() const noexcept { return blocks >= blocks_per_sm * sms; }
  /// Whether all blocks of the grid run at once.
  [[nodiscard]] bool is_one_wave() const noexcept { return blocks <= blocks_per_sm * sms; }
  /// The multiprocessors that it wants, at most all.
  [[nodiscard]] int wanted_sms() const noexcept;
  /// The multiprocessors that its blocks fill, at least one and at most all: fewer than it wants if
  /// they leave room for others.
  [[nodiscard]] int filled_sms() const noexcept;
};

/// Returns the occupancy of a launch; nothing if its grid or block is unknown. Limits that the
/// recording does not tell are those of the compute capability.
[[nodiscard]] std::optional<Occupancy> occupancy_of(Device const& device, LaunchShape const& shape);

/// Returns the resource that keeps blocks of `held` off the device while `running` runs; nothing if
/// a block of it finds room.
[[nodiscard]] std::optional<SmResource> lacking(Device const& device,
                                                LaunchShape const& running,
                                                LaunchShape const& held);

/// Whether the blocks of `held` could all run at once, but not beside those of `running`. So it is
/// with a cooperative launch that waits, which needs room for all of them.
[[nodiscard]] bool lacks_room_for_all(Device const& device,
                                      LaunchShape const& running,
                                      LaunchShape const& held);

}  // namespace msstream::overlap
