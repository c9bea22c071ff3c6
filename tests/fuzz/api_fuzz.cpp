// SPDX-License-Identifier: Apache-2.0
// Fuzzes sequences of calls of the public interface. Calls of streams, events, tensors, scopes,
// holders and copies in any order must never cause a race, a wrong value or a leak, regardless of
// the order in which the simulated device does its work. The first bytes of the input determine the
// order of the device, and the others determine the calls. Some inputs are two programs that run at
// the same time, each on its own thread, on one host device.
#include "fuzz.hpp"
#include "trust/run_program.hpp"

#include <algorithm>
#include <exception>
#include <span>
#include <string_view>

namespace {

using namespace msstream;

constexpr std::size_t kMostSteps = 300;
/// One of this number of inputs runs on two threads. The others do not, because threads take
/// longer, and the input cannot determine how their calls interleave.
constexpr std::uint64_t kInputsBetweenThreads = 16;

/// Removes the seed's bytes from the front of `bytes`, and returns the seed.
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
