// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/collective.hpp"

#include <cstddef>

namespace msstream::comm::detail {

/// Which collectives of a communicator kernels of our own and copy engines carry out. The same on
/// all ranks. Names no CUDA.
struct MailLimits {
  /// The most bytes for each other rank with which kernels of ours are as fast as NCCL's.
  static constexpr std::size_t kMostMailedBytes = std::size_t{64} << 20U;
  /// The most bytes that a rank sends to combine them with those of more than one other rank: each
  /// gets all elements, which for more bytes takes longer than to combine a part of them.
  static constexpr std::size_t kMostCombinedBytes = std::size_t{2} << 20U;
  /// The least bytes for each other rank with which copy engines are faster than kernels: the ranks
  /// meet before and after.
  static constexpr std::size_t kLeastBytesOfEngines = std::size_t{8} << 20U;

  int ranks = 1;
  bool uses_engines = false;  ///< whether copy engines also carry out small collectives

  /// Returns whether an all-gather or all-to-all whose output has so many bytes runs on copy
  /// engines if the output is symmetric, whatever the settings say.
  [[nodiscard]] bool is_large(std::size_t bytes) const noexcept {
    return bytes / static_cast<std::size_t>(ranks) >= kLeastBytesOfEngines;
  }
  /// Returns whether copy engines carry out a collective.
  [[nodiscard]] bool is_for_engines(Collective const& what) const noexcept {
    bool const can_be =
        what.kind == CollectiveKind::all_gather || what.kind == CollectiveKind::all_to_all;
    return can_be && what.output_place >= 0 &&
           (uses_engines || bytes_for_each(what, ranks) >= kLeastBytesOfEngines);
  }
  /// Returns whether kernels of our own or copy engines carry out a collective; NCCL carries out
  /// the others.
  [[nodiscard]] bool serves(Collective const& what) const noexcept {
    auto const bytes = bytes_for_each(what, ranks);
    auto const others = static_cast<std::size_t>(ranks - 1);
    switch (what.kind) {
      case CollectiveKind::send:
      case CollectiveKind::receive:
        return false;
      case CollectiveKind::all_to_all_counted:
        return true;
      case CollectiveKind::all_reduce:
        return bytes <= kMostMailedBytes && (others == 1 || bytes * others <= kMostCombinedBytes);
      default:
        return bytes <= kMostMailedBytes || is_for_engines(what);
    }
  }
};

}  // namespace msstream::comm::detail
