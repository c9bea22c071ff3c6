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
    auto const key = (static_cast<std::uint64_t>(what.count + what.capacity) << 8U |
                      static_cast<std::uint64_t>(what.kind) << 4U |
                      static_cast<std::uint64_t>(what.dtype)) +
                     1;
    auto& seen = seen_[key * 0x9E3779B97F4A7C15U >> kShift];
    if (seen != key) {
      seen = key;
      left_ = trusts_ ? 0 : kFollowing;
    }
    if (left_ == 0) {
      return false;
    }
    --left_;
    return true;
  }
  /// Tells that a rank has not come to a young collective for long, as in a program whose ranks
  /// wait for each other elsewhere: none is young any more.
  void trust() noexcept {
    trusts_ = true;
    left_ = 0;
  }

 private:
  static constexpr int kFollowing = 64;
  static constexpr unsigned kShift = 64 - 6;

  std::array<std::uint64_t, std::size_t{1} << (64 - kShift)> seen_{};  ///< by hash of the key
  int left_ = 0;
  bool trusts_ = false;
};

}  // namespace msstream::comm::detail
