// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/watchdog.hpp"
#include "runtime/gate.hpp"

#include <atomic>
#include <chrono>
#include <string>
#include <utility>

namespace msstream::testing {

/// Runs `call` and returns whether it returned while the gate was closed. If it does not return
/// within two minutes, the gate opens, so that a failing test does not hang.
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
