// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/counter_clock_cuda.hpp"

#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include <cstdint>

namespace msstream::overlap::record {

namespace {

std::uint64_t realtime_ns() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

#if defined(__x86_64__)
struct Rate {
  std::uint64_t count = 0;
  std::uint64_t ns = 0;
  double ns_per_count = 0;
};
Rate rate;

std::uint64_t CUPTIAPI counted_ns() {
  return rate.ns + static_cast<std::uint64_t>(static_cast<double>(__rdtsc() - rate.count) *
                                              rate.ns_per_count);
}
#else
std::uint64_t CUPTIAPI counted_ns() {
  return realtime_ns();
}
#endif

}  // namespace

CUpti_TimestampCallbackFunc counter_clock() {
#if defined(__x86_64__)
  rate.count = __rdtsc();
  rate.ns = realtime_ns();
  std::uint64_t ns = rate.ns;
  while (ns < rate.ns + 20'000'000) {
    ns = realtime_ns();
  }
  rate.ns_per_count =
      static_cast<double>(ns - rate.ns) / static_cast<double>(__rdtsc() - rate.count);
#endif
  return counted_ns;
}

}  // namespace msstream::overlap::record
