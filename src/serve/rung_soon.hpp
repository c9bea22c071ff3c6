// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/spin_lock.hpp"
#include "stream/doorbell.hpp"

#include <chrono>
#include <cstdint>

namespace msstream::serve {

/// Polls a bell until it is rung or the time is over, so that the thread that rings need not wake
/// the calling thread. `rung` is the bell's count before the calling thread last looked for work.
/// Returns whether the bell was rung.
inline bool is_rung_before(detail::Doorbell& bell,
                           std::uint64_t rung,
                           std::chrono::steady_clock::time_point end) noexcept {
  constexpr int kPausesBetweenLooks = 8;
  detail::Doorbell::Watch const watching(bell);
  while (bell.rung() == rung) {
    if (std::chrono::steady_clock::now() >= end) {
      return false;
    }
    for (int i = 0; i < kPausesBetweenLooks; ++i) {
      detail::relax_processor();
    }
  }
  return true;
}

}  // namespace msstream::serve
