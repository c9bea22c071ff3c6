// SPDX-License-Identifier: Apache-2.0
#pragma once

#if MSSTREAM_NCCL

#include "comm/collective.hpp"
#include "exchange/push_rows.hpp"

#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace msstream::comm::detail {

/// The memory of a symmetric tensor on this rank, and where it is on the others.
struct NcclWindow {
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
  ncclWindow_t handle = nullptr;
#endif
  /// The number of the window in its communicator, which is the same on all ranks.
  std::int64_t number = 0;
  /// The addresses of the memory of all ranks, if kernels of every rank's GPU reach all of them;
  /// otherwise empty on all ranks.
  std::vector<std::byte*> of_ranks;
};

/// The symmetric memory of one communicator. Not thread-safe.
class NcclWindows {
 public:
  [[nodiscard]] std::int64_t next_number() noexcept { return made_++; }
  void add(NcclWindow window) { windows_.push_back(std::move(window)); }
  void remove(std::byte const* memory) {
    std::erase_if(windows_, [=](NcclWindow const& one) { return one.memory == memory; });
  }

  /// The place of the output of an all_to_all with counts on all ranks.
  struct Place {
    std::int64_t number;  ///< the same on all ranks that have passed the same part of a tensor
    std::byte* of_ranks[ops::kernels::kMostPushRanks];
  };
  /// Returns where a part's output is on all ranks, if kernels reach it there.
  [[nodiscard]] std::optional<Place> place_of(Part const& part) const {
    auto const* const output = static_cast<std::byte const*>(part.output);
    for (auto const& window : windows_) {
      if (output < window.memory || output >= window.memory + window.bytes ||
          window.of_ranks.empty()) {
        continue;
      }
      auto const offset = output - window.memory;
      Place place{.number = (window.number << 40U) + offset, .of_ranks = {}};
      std::ranges::transform(
          window.of_ranks, place.of_ranks, [=](std::byte* begin) { return begin + offset; });
      return place;
    }
    return std::nullopt;
  }

 private:
  std::vector<NcclWindow> windows_;
  std::int64_t made_ = 0;
};

}  // namespace msstream::comm::detail

#endif
