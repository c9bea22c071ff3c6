// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "comm/ranks.hpp"
#include "step/parallel/model_in_parts.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/data_parallel.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;

struct HowInParts {
  std::int64_t rows = 29;
  int groups = 0;  ///< the groups on which the lookups are; 0: no scopes
  bool is_captured = false;
  std::int64_t bucket_bytes = 64;
  comm::Reduction reduction = comm::Reduction::mean;
  Reproducible reproducible = Reproducible::any_rank_count;
};

template <Runtime R>
TrainedInParts train_in_parts(Rank<R> const& rank, HowInParts const& how) {
  auto const& device = rank.device;
  ModelInParts<R> model(device, how.rows, static_cast<std::uint64_t>(rank.rank()), how.groups);
  DataParallel<R> const parallel(model.parameters(),
                                 rank.communicator,
                                 {.bucket_bytes = how.bucket_bytes,
                                  .reduction = how.reduction,
                                  .reproducible = how.reproducible});
  Optimizer<R> optimizer(device, rule_in_parts(), clipped());
  optimizer.add(model.parameters());
  GradientTape<R> tape(device);
  auto const share = how.reduction == comm::Reduction::mean ? parallel.parts() : 1;
  auto losses = losses_of(device, how.is_captured, [&] {
    auto const all = parallel.backward_in_parts(tape, [&](int part) {
      auto const begin = how.rows * part / parallel.parts();
      auto const end = how.rows * (part + 1) / parallel.parts();
      return begin == end ? std::nullopt
                          : std::optional(ops::scale(tape,
                                                     model.loss(tape, begin, end),
                                                     static_cast<float>((end - begin) * share) /
                                                         static_cast<float>(how.rows)));
    });
    optimizer.step(tape);
    tape.clear();
    return all;
  });
  return {std::move(losses), model.values()};
}

template <class R>
class BatchInParts : public RanksTest<R> {
 protected:
  /// Trains on the ranks, and expects equal results on all of them, which it returns.
  static TrainedInParts trained(int ranks, HowInParts const& how) {
    std::mutex mutex;
    std::map<int, TrainedInParts> results;
    on_ranks<R>(ranks, [&](Rank<R> const& rank) {
      auto const result = train_in_parts(rank, how);
      std::lock_guard const guard(mutex);
      results[rank.rank()] = result;
    });
    for (auto const& [rank, result] : results) {
      EXPECT_TRUE(result == results[0]) << "rank " << rank;
    }
    return results[0];
  }
  /// Returns those of the numbers of ranks for which this machine has devices.
  static std::vector<int> possible(std::vector<int> numbers) {
    std::erase_if(numbers, [](int ranks) { return ranks > most_ranks<R>(); });
    return numbers;
  }
};
TYPED_TEST_SUITE(BatchInParts, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(BatchInParts, any_rank_count_gives_the_same_bits) {
  for (std::int64_t const rows : {32, 29, 5}) {
    auto const expected = TestFixture::trained(1, {.rows = rows});
    for (auto const ranks : TestFixture::possible({2, 4, 8})) {
      EXPECT_TRUE(TestFixture::trained(ranks, {.rows = rows}) == expected)
          << ranks << " ranks, " << rows << " rows";
    }
  }
}

TYPED_TEST(BatchInParts, any_rank_count_gives_the_same_bits_in_every_mode) {
  auto const expected = TestFixture::trained(2, {});
  for (int const groups : {0, 1, 2, 3, 4}) {
    for (bool const is_captured : {false, true}) {
      for (std::int64_t const bytes : {1, 1 << 20}) {
        EXPECT_TRUE(TestFixture::trained(
                        groups % 2 + 1,
                        {.groups = groups, .is_captured = is_captured, .bucket_bytes = bytes}) ==
                    expected)
            << groups << " groups, " << is_captured << ", buckets of " << bytes;
      }
    }
  }
}

TYPED_TEST(BatchInParts, parts_train_what_the_whole_batch_trains) {
  using enum Reproducible;
  for (std::int64_t const rows : {29, 5}) {  // of 5 rows, some parts have none
    auto const expected = train_whole<TypeParam>(rows);
    for (auto const reduction : {comm::Reduction::mean, comm::Reduction::sum}) {
      for (auto const ranks : TestFixture::possible({1, 3, 8})) {
        for (auto const reproducible : {same_rank_count, any_rank_count}) {
          if (reproducible == any_rank_count && ranks == 3) {
            continue;  // 3 does not divide the parts
          }
          SCOPED_TRACE(fmt::format(
              "{} ranks, {} rows, {}, {}", ranks, rows, name_of(reduction), name_of(reproducible)));
          auto const found = TestFixture::trained(
              ranks, {.rows = rows, .reduction = reduction, .reproducible = reproducible});
          expect_near_whole(found.losses, expected.losses);
          expect_near_whole(found.values, expected.values);
        }
      }
    }
  }
}

template <class R>
class BatchInPartsMisuse : public RanksTest<R> {};
TYPED_TEST_SUITE(BatchInPartsMisuse, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(BatchInPartsMisuse, parts_are_a_power_of_two_that_the_ranks_divide) {
  using R = TypeParam;
  on_ranks<R>(2, [](Rank<R> const& rank) {
    Parameters<R> const parameters(rank.device);
    auto const message_with = [&](int parts) {
      return message_of<std::invalid_argument>([&] {
        DataParallel<R>(parameters,
                        rank.communicator,
                        {.reproducible = Reproducible::any_rank_count, .parts = parts});
      });
    };
    for (int const parts : {-8, 0, 1, 6}) {
      EXPECT_THAT(message_with(parts),
                  HasSubstr(fmt::format("batches of {} parts on 2 ranks; expected a power of two "
                                        "that the number of ranks divides",
                                        parts)));
    }
    // Without any_rank_count, the number of parts does not matter.
    DataParallel<R> const parallel(parameters, rank.communicator, {.parts = 6});
    EXPECT_EQ(parallel.parts(), 2);
    EXPECT_EQ(parallel.own_parts(), 1);
    EXPECT_EQ(parallel.first_part(), rank.rank());
  });
}

TYPED_TEST(BatchInPartsMisuse, options_are_equal_on_all_ranks) {
  using R = TypeParam;
  on_ranks<R>(2, [](Rank<R> const& rank) {
    Parameters<R> const parameters(rank.device);
    EXPECT_THAT(message_of<std::invalid_argument>([&] {
                  DataParallel<R>(parameters,
                                  rank.communicator,
                                  {.reproducible = Reproducible::any_rank_count,
                                   .parts = rank.rank() == 0 ? 8 : 4});
                }),
                HasSubstr("any_rank_count of 4 parts"));
  });
}

TYPED_TEST(BatchInPartsMisuse, calls_that_do_not_go_together_are_refused) {
  using R = TypeParam;
  on_ranks<R>(1, [](Rank<R> const& rank) {
    ModelInParts<R> model(rank.device, 8, 0, 0);
    DataParallel<R> const parallel(
        model.parameters(), rank.communicator, {.reproducible = Reproducible::any_rank_count});
    GradientTape<R> tape(rank.device);
    auto const loss_of = [&](int part) { return std::optional(model.loss(tape, part, part + 1)); };
    EXPECT_THAT(message_of<std::logic_error>([&] { parallel.backward(tape, *loss_of(0)); }),
                HasSubstr("call backward_in_parts()"));
    tape.clear();
    (void)parallel.backward_in_parts(tape, loss_of);
    EXPECT_THAT(
        message_of<std::logic_error>([&] { (void)parallel.backward_in_parts(tape, loss_of); }),
        HasSubstr("call clear()"));
    tape.clear();
    EXPECT_THAT(message_of<std::runtime_error>([&] {
                  (void)parallel.backward_in_parts(
                      tape, [&](int part) -> std::optional<Tensor<float, R>> {
                        if (part == 3) {
                          throw std::runtime_error("a bad row");
                        }
                        return loss_of(part);
                      });
                }),
                HasSubstr("a bad row"));
    // The tape and the communicator stay usable.
    tape.clear();
    (void)parallel.backward_in_parts(tape, loss_of);
    rank.communicator.synchronize();
  });
}

}  // namespace
}  // namespace msstream::testing
