// SPDX-License-Identifier: Apache-2.0
#include "comm/ranks.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

using comm::Reduction;
using ::testing::ElementsAre;

constexpr int kMostRanks = 8;
// None, one, fewer than ranks, and a block of elements that is combined at a time, or more.
constexpr std::size_t kFewElements[] = {0, 1, 5};
constexpr std::size_t kManyElements[] = {512, 700};

/// Calls `function(T())` for each element type.
template <class Function>
void for_each_type(Function const& function) {
  function(float());
  function(float16());
  function(bfloat16());
  function(std::int32_t());
  function(std::int64_t());
  function(std::uint8_t());
}

/// The inputs of all ranks, by rank: every rank can compute what it has to get.
template <Element T>
std::vector<std::vector<T>> inputs_of(std::uint64_t seed, int ranks, std::size_t count) {
  std::vector<std::vector<T>> inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    inputs.push_back(random_elements<T>(seed * 1000 + static_cast<std::uint64_t>(rank), count));
  }
  return inputs;
}

/// Expects the elements [begin, begin + actual.size()) of the combined inputs. Floats are computed
/// in double, and have to be as near as the roundings of float32 sums and of the result allow. The
/// result may be rounded `roundings` times.
template <Element T>
void expect_reduced(std::vector<T> const& actual,
                    std::vector<std::vector<T>> const& inputs,
                    Reduction reduction,
                    std::size_t begin,
                    int roundings) {
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if constexpr (std::integral<T>) {
      std::uint64_t sum = 0;
      T largest = std::numeric_limits<T>::min();
      T least = std::numeric_limits<T>::max();
      for (auto const& input : inputs) {
        sum += static_cast<std::uint64_t>(input[begin + i]);
        largest = std::max(largest, input[begin + i]);
        least = std::min(least, input[begin + i]);
      }
      auto const expected = reduction == Reduction::sum   ? static_cast<T>(sum)
                            : reduction == Reduction::max ? largest
                                                          : least;
      ASSERT_EQ(actual[i], expected) << "element " << i << ", " << reduction;
    } else {
      double sum = 0;
      double magnitude = 0;
      double largest = -INFINITY;
      double least = INFINITY;
      for (auto const& input : inputs) {
        double const value = to_float(input[begin + i]);
        sum += value;
        magnitude += std::abs(value);
        largest = std::max(largest, value);
        least = std::min(least, value);
      }
      auto const ranks = static_cast<double>(inputs.size());
      double const expected = reduction == Reduction::sum    ? sum
                              : reduction == Reduction::mean ? sum / ranks
                              : reduction == Reduction::max  ? largest
                                                             : least;
      bool const adds = reduction == Reduction::sum || reduction == Reduction::mean;
      double const unit = sizeof(T) == 4 ? 0x1p-24 : std::same_as<T, float16> ? 0x1p-11 : 0x1p-8;
      double const of_sums = adds ? ranks * 0x1p-23 * magnitude : 0;
      double const of_result =
          adds ? roundings * (unit * (roundings == 1 ? std::abs(expected) : magnitude) + 0x1p-25)
               : 0;
      ASSERT_NEAR(to_float(actual[i]), expected, of_sums + of_result)
          << "element " << i << ", " << reduction;
    }
  }
}

/// Returns the bits that a sum or mean has if it is computed in float32 in the order of the ranks.
template <Element T>
std::vector<T> added_in_order(std::vector<std::vector<T>> const& inputs, bool is_mean) {
  std::vector<T> result;
  for (std::size_t i = 0; i < inputs[0].size(); ++i) {
    float sum = to_float(inputs[0][i]);
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
      sum += to_float(inputs[rank][i]);
    }
    result.push_back(from_float<T>(is_mean ? sum / static_cast<float>(inputs.size()) : sum));
  }
  return result;
}

template <Element T>
std::vector<Reduction> reductions_of() {
  if constexpr (std::integral<T>) {
    return {Reduction::sum, Reduction::max, Reduction::min};
  } else {
    return {Reduction::sum, Reduction::mean, Reduction::max, Reduction::min};
  }
}

template <class R>
class Collectives : public RanksTest<R> {
 protected:
  /// Calls `body(rank, T(), count)` on 1 to 8 ranks for each type, with few elements and with many.
  template <class Body>
  void on_all(Body const& body) {
    for (int ranks = 1; ranks <= std::min(kMostRanks, most_ranks<R>()); ++ranks) {
      on_ranks<R>(ranks, [&](Rank<R> const& rank) {
        std::mt19937_64 engine(seed);  // chooses the same on all ranks
        for_each_type([&](auto of) {
          body(rank, of, kFewElements[engine() % std::size(kFewElements)]);
          body(rank, of, kManyElements[engine() % std::size(kManyElements)]);
        });
      });
    }
  }
  /// Returns how often a sum of 16-bit floats is rounded: NCCL does so after each addition.
  [[nodiscard]] static int roundings(Rank<R> const& rank) {
    return is_by_nccl<R> ? rank.size() : 1;
  }
  std::uint64_t const seed = test_seed() % 1'000'000'000;
};
TYPED_TEST_SUITE(Collectives, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(Collectives, all_reduce_combines_the_elements_of_all_ranks) {
  this->on_all([this](auto const& rank, auto of, std::size_t count) {
    using T = decltype(of);
    auto const inputs = inputs_of<T>(this->seed, rank.size(), count);
    for (auto const reduction : reductions_of<T>()) {
      auto const tensor = rank.tensor(inputs[static_cast<std::size_t>(rank.rank())]);
      all_reduce(rank.communicator, tensor, reduction);
      expect_reduced(to_host(tensor), inputs, reduction, 0, this->roundings(rank));
    }
  });
}

TYPED_TEST(Collectives, sums_are_added_in_the_order_of_the_ranks) {
  if (is_by_nccl<TypeParam>) {
    GTEST_SKIP() << "NCCL has an order of its own";
  }
  this->on_all([this](auto const& rank, auto of, std::size_t count) {
    using T = decltype(of);
    if constexpr (!std::integral<T>) {
      auto const inputs = inputs_of<T>(this->seed, rank.size(), count);
      for (bool const is_mean : {false, true}) {
        auto const tensor = rank.tensor(inputs[static_cast<std::size_t>(rank.rank())]);
        all_reduce(rank.communicator, tensor, is_mean ? Reduction::mean : Reduction::sum);
        ASSERT_EQ(bits_of(to_host(tensor)), bits_of(added_in_order(inputs, is_mean)));
      }
    }
  });
}

TYPED_TEST(Collectives, reduce_scatter_gives_each_rank_its_part) {
  this->on_all([this](auto const& rank, auto of, std::size_t count) {
    using T = decltype(of);
    auto const size = static_cast<std::size_t>(rank.size());
    auto const self = static_cast<std::size_t>(rank.rank());
    auto const inputs = inputs_of<T>(this->seed, rank.size(), count * size);
    for (auto const reduction : reductions_of<T>()) {
      auto const input = rank.tensor(inputs[self]);
      auto const output = rank.template poisoned<T>(static_cast<std::int64_t>(count));
      reduce_scatter(rank.communicator, input, output, reduction);
      expect_reduced(to_host(output), inputs, reduction, self * count, this->roundings(rank));
      ASSERT_EQ(bits_of(to_host(input)), bits_of(inputs[self]));
    }
  });
}

TYPED_TEST(Collectives, all_gather_gives_every_rank_all_inputs) {
  this->on_all([this](auto const& rank, auto of, std::size_t count) {
    using T = decltype(of);
    auto const inputs = inputs_of<T>(this->seed, rank.size(), count);
    auto const output = rank.template poisoned<T>(static_cast<std::int64_t>(count) * rank.size());
    all_gather(
        rank.communicator, rank.tensor(inputs[static_cast<std::size_t>(rank.rank())]), output);
    std::vector<T> expected;
    for (auto const& input : inputs) {
      expected.insert(expected.end(), input.begin(), input.end());
    }
    ASSERT_EQ(bits_of(to_host(output)), bits_of(expected));
  });
}

TYPED_TEST(Collectives, all_gather_takes_an_input_from_its_place_in_the_output) {
  this->on_all([this](auto const& rank, auto of, std::size_t count) {
    using T = decltype(of);
    auto const inputs = inputs_of<T>(this->seed, rank.size(), count);
    auto const each = static_cast<std::int64_t>(count);
    auto const output = rank.template poisoned<T>(each * rank.size());
    auto const own = output.rows(rank.rank() * each, (rank.rank() + 1) * each);
    copy(own, rank.tensor(inputs[static_cast<std::size_t>(rank.rank())]));
    all_gather(rank.communicator, own, output);
    std::vector<T> expected;
    for (auto const& input : inputs) {
      expected.insert(expected.end(), input.begin(), input.end());
    }
    ASSERT_EQ(bits_of(to_host(output)), bits_of(expected));
  });
}

TYPED_TEST(Collectives, all_to_all_exchanges_equal_parts) {
  this->on_all([this](auto const& rank, auto of, std::size_t count) {
    using T = decltype(of);
    auto const size = static_cast<std::size_t>(rank.size());
    auto const self = static_cast<std::size_t>(rank.rank());
    auto const inputs = inputs_of<T>(this->seed, rank.size(), count * size);
    auto const output = rank.template poisoned<T>(static_cast<std::int64_t>(count * size));
    all_to_all(rank.communicator, rank.tensor(inputs[self]), output);
    std::vector<T> expected;
    for (auto const& input : inputs) {
      auto const begin = input.begin() + static_cast<std::ptrdiff_t>(self * count);
      expected.insert(expected.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
    }
    ASSERT_EQ(bits_of(to_host(output)), bits_of(expected));
  });
}

TYPED_TEST(Collectives, all_to_all_sends_as_many_rows_as_the_device_counts) {
  constexpr std::int64_t kWidth = 3;
  this->on_all([this](auto const& rank, auto of, std::size_t capacity) {
    using T = decltype(of);
    auto const size = static_cast<std::size_t>(rank.size());
    auto const self = static_cast<std::size_t>(rank.rank());
    auto const inputs = inputs_of<T>(this->seed, rank.size(), size * capacity * kWidth);
    std::mt19937_64 engine(this->seed + capacity);
    std::vector<std::vector<std::int64_t>> counts(size, std::vector<std::int64_t>(size));
    for (auto& of_rank : counts) {
      for (auto& count : of_rank) {
        count = static_cast<std::int64_t>(engine() % (capacity + 1));
      }
    }
    Shape const shape{rank.size(), static_cast<std::int64_t>(capacity), kWidth};
    auto const output = rank.template poisoned<T>(shape.count());
    auto const received = rank.template poisoned<std::int64_t>(rank.size());
    all_to_all(rank.communicator,
               rank.tensor(inputs[self]).reshaped(shape),
               rank.tensor(counts[self]),
               output.reshaped(shape),
               received);
    auto const rows = to_host(output);
    auto const row_counts = to_host(received);
    for (std::size_t other = 0; other < size; ++other) {
      ASSERT_EQ(row_counts[other], counts[other][self]);
      auto const elements = static_cast<std::ptrdiff_t>(row_counts[other] * kWidth);
      auto const to = static_cast<std::ptrdiff_t>(other * capacity * kWidth);
      auto const from = static_cast<std::ptrdiff_t>(self * capacity * kWidth);
      ASSERT_EQ(bits_of(std::vector<T>(rows.begin() + to, rows.begin() + to + elements)),
                bits_of(std::vector<T>(inputs[other].begin() + from,
                                       inputs[other].begin() + from + elements)));
    }
  });
}

TYPED_TEST(Collectives, broadcast_gives_every_rank_the_elements_of_the_root) {
  this->on_all([this](auto const& rank, auto of, std::size_t count) {
    using T = decltype(of);
    auto const elements = random_elements<T>(this->seed, count);
    for (int root = 0; root < rank.size(); ++root) {
      auto const tensor = rank.rank() == root
                              ? rank.tensor(elements)
                              : rank.template poisoned<T>(static_cast<std::int64_t>(count));
      broadcast(rank.communicator, tensor, root);
      ASSERT_EQ(bits_of(to_host(tensor)), bits_of(elements));
    }
  });
}

TYPED_TEST(Collectives, elements_go_around_a_ring) {
  this->on_all([this](auto const& rank, auto of, std::size_t count) {
    using T = decltype(of);
    auto const elements = random_elements<T>(this->seed, count);
    auto const tensor = rank.rank() == 0
                            ? rank.tensor(elements)
                            : rank.template poisoned<T>(static_cast<std::int64_t>(count));
    if (rank.rank() != 0) {
      receive(rank.communicator, tensor, rank.rank() - 1);
    }
    if (rank.rank() != rank.size() - 1) {
      send(rank.communicator, tensor, rank.rank() + 1);
    }
    ASSERT_EQ(bits_of(to_host(tensor)), bits_of(elements));
  });
}

TYPED_TEST(Collectives, the_root_may_send_a_frozen_tensor) {
  on_ranks<TypeParam>(2, [](Rank<TypeParam> const& rank) {
    auto tensor = rank.tensor(std::vector<float>{rank.rank() == 1 ? 7.0F : 0.0F});
    if (rank.rank() == 1) {
      tensor.freeze();
    }
    broadcast(rank.communicator, tensor, 1);
    EXPECT_THAT(to_host(tensor), ElementsAre(7.0F));
  });
}

TYPED_TEST(Collectives, a_nan_of_any_rank_is_the_largest_and_the_least) {
  if (is_by_nccl<TypeParam>) {
    GTEST_SKIP() << "NCCL may drop a NaN";
  }
  for (int nan_rank = 0; nan_rank < 3; ++nan_rank) {
    on_ranks<TypeParam>(3, [&](Rank<TypeParam> const& rank) {
      for (auto const reduction : {Reduction::max, Reduction::min}) {
        auto const value = rank.rank() == nan_rank ? NAN : static_cast<float>(rank.rank());
        auto const tensor = rank.tensor(std::vector<float>{value});
        all_reduce(rank.communicator, tensor, reduction);
        EXPECT_TRUE(std::isnan(to_host(tensor)[0])) << reduction;
      }
    });
  }
}

TYPED_TEST(Collectives, sums_of_half_precision_are_rounded_once) {
  if (is_by_nccl<TypeParam>) {
    GTEST_SKIP() << "NCCL rounds after each addition";
  }
  // 256 + 1 + 1 is 258 in bfloat16. If each addition were rounded, the result would be 256.
  on_ranks<TypeParam>(3, [](Rank<TypeParam> const& rank) {
    auto const value = from_float<bfloat16>(rank.rank() == 0 ? 256.0F : 1.0F);
    auto const tensor = rank.tensor(std::vector<bfloat16>{value});
    all_reduce(rank.communicator, tensor);
    EXPECT_EQ(to_float(to_host(tensor)[0]), 258.0F);
  });
}

TYPED_TEST(Collectives, a_barrier_ends_when_all_ranks_have_come) {
  std::atomic<int> came{0};
  on_ranks<TypeParam>(4, [&](Rank<TypeParam> const& rank) {
    for (int round = 1; round <= 20; ++round) {
      came.fetch_add(1);
      rank.device.synchronize(barrier(rank.communicator));
      EXPECT_GE(came.load(), rank.size() * round);
    }
  });
}

TYPED_TEST(Collectives, communicators_find_each_other_by_their_names) {
  on_ranks<TypeParam>(3, [](Rank<TypeParam> const& rank) {
    // Each rank makes them in another order, on two threads; the n-th of a name belong together.
    auto const use = [&](std::string const& name, float value) {
      for (int generation = 0; generation < 3; ++generation) {
        comm::Communicator<TypeParam> const own(rank.device, rank.world, {.name = name});
        auto const tensor = rank.tensor(std::vector<float>{value});
        all_reduce(own, tensor);
        EXPECT_EQ(to_host(tensor)[0], static_cast<float>(rank.size()) * value);
      }
    };
    std::jthread const other([&] { use("other", 5); });
    use("one", 1);
  });
}

}  // namespace
}  // namespace msstream::testing
