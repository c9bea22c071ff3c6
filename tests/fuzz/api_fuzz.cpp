// SPDX-License-Identifier: Apache-2.0
// Sequences of calls of the public interface: streams, events, tensors, scopes, holders and copies
// in any order are never a race, never a wrong value and never a leak, in whichever order the
// simulated device does its work. The input's first bytes choose that order, the others the calls.
// Some inputs are two programs, on threads of their own, beside each other on one host device.
#include "fuzz.hpp"
#include "trust/run_program.hpp"

#include <algorithm>
#include <exception>
#include <span>
#include <string_view>

namespace {

using namespace msstream;

constexpr std::size_t kMostSteps = 300;
/// One input in so many: threads take longer, and where they meet is not the input's to say.
constexpr std::uint64_t kInputsBetweenThreads = 16;

/// From the bytes at the front, which are taken off.
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
    fuzz::expect(false, std::string_view(error.what()));
  }
  return 0;
}
