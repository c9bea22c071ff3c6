// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>
#include <vector>

namespace msstream::testing {

/// Calls body(i) at once on `count` threads, each with its number, until all have returned.
template <class Body>
void run_threads(int count, Body const& body) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&body, i] { body(i); });
  }
}

}  // namespace msstream::testing
