// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>
#include <vector>

namespace msstream::testing {

/// Calls body(i) for i = 0 to `count` - 1, each on its own thread at once, and waits for all of
/// them.
template <class Body>
void run_threads(int count, Body const& body) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&body, i] { body(i); });
  }
}

}  // namespace msstream::testing
