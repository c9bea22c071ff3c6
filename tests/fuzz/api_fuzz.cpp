// SPDX-License-Identifier: Apache-2.0
// Sequences of calls of the public interface. Calls of streams, events, tensors, scopes, holders
// and copies in any order never cause a race, a wrong value or a leak, in whichever order the
// simulated device does its work. The first bytes of the input choose the order of the device, and
// the others choose the calls. Some inputs are two programs that run side by side, each on its own
// thread, on one host device.
#include "fuzz.hpp"
#include "trust/run_program.hpp"

#include <algorithm>
#include <exception>
#include <span>
#include <string_view>

namespace {

using namespace msstream;

constexpr std::size_t kMostSteps = 300;
/// The number of inputs of which one runs on two threads. Threads take longer, and the input cannot
/// decide how their calls interleave.
constexpr std::uint64_t kInputsBetweenThreads = 16;

/// Takes the bytes of the seed off the front, and returns the seed.
std::uint64_t schedule_seed_of(std::span<std::uint8_t const>& bytes) {
  auto const count = std::min<std::size_t>(4, bytes.size());
  std::uint64_t seed = 0;
  for (auto const byte : bytes.first(count)) {
    seed = seed << 8U | byte;
  }
  bytes = bytes.subspan(count);
  return seed;
}

void run_on_two_threads(std::span<std::uint8_t const> calls) {
  auto const half = calls.size() / 2;
  testing::Choices device(calls);
  auto const pool = testing::pool_for(device);
  testing::run_beside_each_other(
      device,
      pool,
      {testing::Choices(calls.first(half)), testing::Choices(calls.subspan(half))},
      kMostSteps);
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t count) {
  std::span calls(bytes, count);
  auto const seed = schedule_seed_of(calls);
  try {
    if (seed % kInputsBetweenThreads == 1) {
      run_on_two_threads(calls);
    } else {
      testing::run_simulated(testing::Choices(calls), seed, kMostSteps);
    }
  } catch (std::exception const& error) {
    fuzz::expect(false, error.what());
  }
  return 0;
}
