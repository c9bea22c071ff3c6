// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/abort_trace.hpp"
#include "comm/nccl.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/comm/collectives.hpp>
#include <msstream/runtime/checked.hpp>
#include <msstream/runtime/cuda.hpp>
#include <msstream/runtime/host.hpp>
#include <msstream/tensor/copy.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

namespace msstream::testing {

/// The runtimes on which several ranks meet as threads of the host.
using ThreadRuntimes = ::testing::Types<Host, Checked<Host>>;
/// The runtimes on which several ranks have collectives: ThreadRuntimes, and GPUs with NCCL.
#if MSSTREAM_TESTS_OF_CUDA_ALONE
using RankRuntimes = ::testing::Types<Cuda>;
#elif MSSTREAM_CUDA
using RankRuntimes = ::testing::Types<Host, Checked<Host>, Cuda>;
#else
using RankRuntimes = ThreadRuntimes;
#endif

struct RuntimeNamesOfRanks {
  template <class R>
  static std::string GetName(int index) {
    return index == 0 ? "host" : index == 1 ? "checked" : "cuda";
  }
};

/// Whether NCCL carries out the collectives of a runtime.
template <Runtime R>
inline constexpr bool is_by_nccl = false;
#if MSSTREAM_CUDA
template <>
inline constexpr bool is_by_nccl<Cuda> = true;
#endif

/// Returns how many ranks this machine has devices for.
template <Runtime R>
[[nodiscard]] int most_ranks() {
#if MSSTREAM_CUDA
  if constexpr (is_by_nccl<R>) {
    return comm::detail::has_nccl() ? Cuda::device_count() : 1;
  }
#endif
  return 8;
}

/// Returns those numbers of ranks for which this machine has devices, and the largest that it has
/// devices for in place of the others.
template <Runtime R>
[[nodiscard]] std::vector<int> numbers_of_ranks(std::vector<int> const& wanted) {
  std::vector<int> numbers;
  for (int const ranks : wanted) {
    auto const possible = std::min(ranks, most_ranks<R>());
    if (std::find(numbers.begin(), numbers.end(), possible) == numbers.end()) {
      numbers.push_back(possible);
    }
  }
  return numbers;
}

/// A fixture that skips the test with a message if there are no two devices.
template <Runtime R>
class RanksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (most_ranks<R>() < 2) {
      GTEST_SKIP() << R::name << ": several ranks need a build with NCCL, and two GPUs";
    }
  }
};

/// One rank of a test: a device of its own and a communicator between all ranks.
template <Runtime R>
struct Rank {
  comm::World world;
  Device<R> device;
  comm::Communicator<R> communicator;

  [[nodiscard]] int rank() const { return world.rank(); }
  [[nodiscard]] int size() const { return world.size(); }
  template <Element T>
  [[nodiscard]] Tensor<T, R> tensor(std::vector<T> const& values) const {
    return to_device<T>(device, values, {static_cast<std::int64_t>(values.size())});
  }
  /// Returns a tensor whose elements are NaN or -1, which shows an element that is not written.
  template <Element T>
  [[nodiscard]] Tensor<T, R> poisoned(std::int64_t count) const {
    Tensor<T, R> const tensor(device, {count});
    fill_bytes(tensor, 0xFF);
    return tensor;
  }
};

/// Calls `body(rank)` on each of `ranks` ranks, which are threads; on fewer if the machine has
/// fewer GPUs.
template <Runtime R, class Body>
void on_ranks(int ranks, Body const& body, comm::CommunicatorOptions const& options = {}) {
  comm::run_as_threads(std::min(ranks, most_ranks<R>()), [&](comm::World const& world) {
    auto const device = comm::device_of<R>(world);
    body(Rank<R>{world, device, comm::Communicator<R>(device, world, options)});
  });
}

/// Returns the seed of a test's random numbers, and prints it: that of MSSTREAM_TEST_SEED, if it is
/// set, otherwise another one in each run.
[[nodiscard]] inline std::uint64_t test_seed() {
  auto const* const given = std::getenv("MSSTREAM_TEST_SEED");
  std::uint64_t const seed = given != nullptr ? std::stoull(given) : std::random_device()();
  std::cout << "random seed: MSSTREAM_TEST_SEED=" << seed << "\n";
  return seed;
}

/// Returns random elements, equal for equal seeds: floats within [-2, 2], and all integers.
template <Element T>
[[nodiscard]] std::vector<T> random_elements(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 engine(seed);
  std::vector<T> elements;
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::integral<T>) {
      elements.push_back(static_cast<T>(engine()));
    } else {
      elements.push_back(from_float<T>(std::uniform_real_distribution<float>(-2, 2)(engine)));
    }
  }
  return elements;
}

/// Returns the elements as bit patterns, so that comparisons take NaN as equal to itself.
template <Element T>
[[nodiscard]] std::vector<std::int64_t> bits_of(std::vector<T> const& elements) {
  std::vector<std::int64_t> bits;
  for (auto const element : elements) {
    if constexpr (std::same_as<T, float>) {
      bits.push_back(std::bit_cast<std::int32_t>(element));
    } else if constexpr (std::integral<T>) {
      bits.push_back(static_cast<std::int64_t>(element));
    } else {
      bits.push_back(element.bits);
    }
  }
  return bits;
}

}  // namespace msstream::testing
