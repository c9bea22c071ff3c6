// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/collective.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace msstream::comm::detail {

/// Tells which collectives of a rank are young: those of a size that is new to it, and some that
/// follow, beside which kernels are likely to run for the first time. Use it on one thread.
class YoungCollectives {
 public:
  /// Returns whether the rank's next collective is young.
  [[nodiscard]] bool is(Collective const& what) noexcept {
    if (is_new(what) && disappointments_ < kMostDisappointments) {
      left_ = kFollowing;
    }
    if (left_ == 0) {
      return false;
    }
    --left_;
    return true;
  }
  /// Tells that a rank has not come to a young collective for long, as in a program whose ranks
  /// wait for each other elsewhere: those that follow are not young, and after the third time none
  /// is any more.
  void trust() noexcept {
    ++disappointments_;
    left_ = 0;
  }

 private:
  static constexpr int kFollowing = 64;
  static constexpr int kMostDisappointments = 3;
  static constexpr std::size_t kPlaces = 512;
  static constexpr std::size_t kTries = 16;

  /// Notes a size. If there are so many that it has no place, it is not new.
  [[nodiscard]] bool is_new(Collective const& what) noexcept {
    auto const key = (static_cast<std::uint64_t>(what.count + what.capacity) << 12U |
                      static_cast<std::uint64_t>(what.kind) << 8U |
                      static_cast<std::uint64_t>(what.dtype) << 4U |
                      static_cast<std::uint64_t>(what.reduction)) +
                     1;
    auto const first = key * 0x9E3779B97F4A7C15U >> 32U;
    for (std::size_t i = 0; i < kTries; ++i) {
      auto& place = seen_[(first + i) % kPlaces];
      if (place == key) {
        return false;
      }
      if (place == 0) {
        place = key;
        return true;
      }
    }
    return false;
  }

  std::array<std::uint64_t, kPlaces> seen_{};  ///< keys at their hash or behind it
  int left_ = 0;
  int disappointments_ = 0;
};

}  // namespace msstream::comm::detail
