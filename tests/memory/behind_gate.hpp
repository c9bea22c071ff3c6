// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "faulty/watchdog.hpp"
#include "runtime/gate.hpp"

#include <atomic>
#include <chrono>
#include <string>
#include <utility>

namespace msstream::testing {

/// Whether the call returns while the gate is closed. For one that does not, the gate opens in the
/// end, so that a test which fails does not hang as well.
template <class Call>
[[nodiscard]] bool returns_behind(Gate& gate, Call&& call) {
  std::atomic<bool> opened{false};
  {
    Watchdog const watchdog([] { return std::string("a call behind a closed gate"); },
                            std::chrono::minutes(2),
                            [&] {
                              opened = true;
                              gate.open();
                            });
    std::forward<Call>(call)();
  }
  return !opened;
}

}  // namespace msstream::testing
