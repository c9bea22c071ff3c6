// SPDX-License-Identifier: Apache-2.0
// Opens ranges and samples counters as the library does in a build with CUDA, and prints what a
// range costs. nvtx_test.py runs it with a tool and without.
#include "trace/counter.hpp"

#include <msstream/trace/detail/stack_range.hpp>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

using msstream::detail::category_of;
using msstream::detail::Counter;
using msstream::detail::StackRange;

int main() {
  using Clock = std::chrono::steady_clock;
  auto const other = category_of("default group");
  auto const category = category_of("group 2");
  if (category_of(std::string("group 2").c_str()) != category ||
      category_of("default group") != other) {
    std::puts("a name has two categories");
    return 1;
  }
  {
    StackRange const scope("user_tower/attention");
    for (int i = 1; i <= 2; ++i) {
      std::string const dense = "dense";  // another address each time
      StackRange const operation(dense.c_str(), category, 40 + static_cast<unsigned>(i));
    }
  }
  Counter const bytes("cuda 0 memory in use", Counter::Unit::bytes);
  Counter const waits("group 2 waits", Counter::Unit::count);
  Counter const same(std::string("group 2 waits").c_str(), Counter::Unit::count);
  bytes.sample(1 << 20);
  waits.sample(7);
  same.sample(8);
  if (msstream::detail::nvtx_listens()) {
    for (int i = 0; i < 9000; ++i) {  // more names than are registered
      StackRange const numbered(("step " + std::to_string(i)).c_str());
    }
    std::thread([] {  // knows what another thread has registered
      StackRange const scope("user_tower/attention");
      StackRange const operation("dense");
    })
        .join();
    return 0;
  }
  constexpr int kRanges = 100'000'000;
  auto const begin = Clock::now();
  for (int i = 0; i < kRanges; ++i) {
    StackRange const range("dense", category, static_cast<unsigned>(i));
    asm volatile("" : : : "memory");
  }
  auto const ns = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
  std::printf("%.2f ns a range\n", ns / kRanges);
}
