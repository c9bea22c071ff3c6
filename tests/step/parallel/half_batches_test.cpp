// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "comm/ranks.hpp"
#include "runtime/gate.hpp"
#include "step/parallel/model_in_parts.hpp"

#include <msstream/step/half_batches.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;

struct HowInHalves {
  std::int64_t rows = 29;
  int groups = 0;  ///< the groups on which the lookups are; 0: no scopes
  bool is_captured = false;
  std::int64_t bucket_bytes = 64;
  comm::Reduction reduction = comm::Reduction::mean;
  bool in_one_lookup = false;  ///< whether the tables are EmbeddingTables
};

/// Calls `body(world, device)` on each rank.
template <Runtime R, class Body>
void on_worlds(int ranks, Body const& body) {
  comm::run_as_threads(std::min(ranks, most_ranks<R>()),
                       [&](comm::World const& world) { body(world, comm::device_of<R>(world)); });
}

template <Runtime R>
TrainedInParts train_in_halves(comm::World const& world,
                               Device<R> const& device,
                               HowInHalves const& how) {
  ModelInParts<R> model(
      device, how.rows, static_cast<std::uint64_t>(world.rank()), how.groups, how.in_one_lookup);
  HalfBatches<R> const halves(device,
                              model.parameters(),
                              world,
                              {.bucket_bytes = how.bucket_bytes, .reduction = how.reduction});
  Optimizer<R> optimizer(device, rule_in_parts(), clipped());
  optimizer.add(model.parameters());
  GradientTape<R> tape(device);
  auto const share = how.reduction == comm::Reduction::mean ? halves.parts() : 1;
  auto losses = losses_of(device, how.is_captured, [&] {
    auto const all = halves.backward(tape, [&](int half) {
      auto const part = 2 * world.rank() + half;
      auto const begin = how.rows * part / halves.parts();
      auto const end = how.rows * (part + 1) / halves.parts();
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
class HalfBatchesTest : public RanksTest<R> {
 protected:
  /// Trains on the ranks, and expects equal results on all of them, which it returns.
  static TrainedInParts trained(int ranks, HowInHalves const& how) {
    std::mutex mutex;
    std::map<int, TrainedInParts> results;
    on_worlds<R>(ranks, [&](comm::World const& world, Device<R> const& device) {
      auto const result = train_in_halves(world, device, how);
      std::lock_guard const guard(mutex);
      results[world.rank()] = result;
    });
    for (auto const& [rank, result] : results) {
      EXPECT_TRUE(result == results[0]) << "rank " << rank;
    }
    return results[0];
  }
};
TYPED_TEST_SUITE(HalfBatchesTest, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(HalfBatchesTest, train_what_the_whole_batch_trains) {
  for (std::int64_t const rows : {29, 3}) {  // of 3 rows, some halves have none
    for (bool const in_one_lookup : {false, true}) {
      auto const expected = train_whole<TypeParam>(rows, in_one_lookup);
      for (auto const reduction : {comm::Reduction::mean, comm::Reduction::sum}) {
        for (int const ranks : numbers_of_ranks<TypeParam>({1, 2, 3})) {
          SCOPED_TRACE(fmt::format(
              "{} ranks, {} rows, {}, {}", ranks, rows, name_of(reduction), in_one_lookup));
          auto const found = TestFixture::trained(
              ranks, {.rows = rows, .reduction = reduction, .in_one_lookup = in_one_lookup});
          expect_near_whole(found.losses, expected.losses);
          expect_near_whole(found.values, expected.values);
        }
      }
    }
  }
}

TYPED_TEST(HalfBatchesTest, bits_are_equal_in_every_mode) {
  for (bool const in_one_lookup : {false, true}) {
    auto const expected = TestFixture::trained(2, {.in_one_lookup = in_one_lookup});
    for (int const groups : {0, 1, 2, 3, 4}) {
      for (bool const is_captured : {false, true}) {
        for (std::int64_t const bytes : {1, 1 << 20}) {
          auto const found = TestFixture::trained(2,
                                                  {.groups = groups,
                                                   .is_captured = is_captured,
                                                   .bucket_bytes = bytes,
                                                   .in_one_lookup = in_one_lookup});
          if (!is_by_nccl<TypeParam>) {
            EXPECT_TRUE(found == expected) << groups << " groups, " << is_captured
                                           << ", buckets of " << bytes << ", " << in_one_lookup;
          }
        }
      }
    }
  }
}

TYPED_TEST(HalfBatchesTest, misuse_is_told) {
  using R = TypeParam;
  on_worlds<R>(1, [](comm::World const& world, Device<R> const& device) {
    ModelInParts<R> model(device, 8, 0, 0);
    EXPECT_THAT(
        message_of<std::invalid_argument>([&] {
          HalfBatches<R>(
              device, model.parameters(), world, {.reproducible = Reproducible::any_rank_count});
        }),
        HasSubstr("HalfBatches: any_rank_count; expected same_rank_count"));
    HalfBatches<R> const halves(device, model.parameters(), world);
    GradientTape<R> tape(device);
    auto const loss_of = [&](int half) {
      return std::optional(model.loss(tape, 4 * half, 4 * half + 4));
    };
    (void)halves.backward(tape, loss_of);
    EXPECT_THAT(message_of<std::logic_error>([&] { (void)halves.backward(tape, loss_of); }),
                HasSubstr("call clear()"));
    EXPECT_THAT(message_of<std::logic_error>([&] { tape.backward(*loss_of(0)); }),
                HasSubstr("call clear()"));
  });
}

template <class R>
class HalfBatchesOverlap : public ::testing::Test {};
TYPED_TEST_SUITE(HalfBatchesOverlap, ThreadRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(HalfBatchesOverlap, the_first_half_is_exchanged_beside_the_second) {
  using R = TypeParam;
  on_worlds<R>(2, [](comm::World const& world, Device<R> const& device) {
    Parameters<R> parameters(device);
    auto const weight = parameters.dense("weight", {1}, init::constant(2));
    HalfBatches<R> const halves(device, parameters, world);
    GradientTape<R> tape(device);
    Gate gate;
    std::vector<std::string> exchanged;
    device.start_spans();
    auto const loss = halves.backward(tape, [&](int half) {
      if (half == 1) {
        gate.hold(halves.group(1).compute());
        // Returns while all work of the second half is held.
        halves.communicator(0).synchronize();
        for (auto const& span : device.stop_spans().spans()) {
          if (span.lane == "comm first half") {
            exchanged.push_back(span.name);
          }
        }
      }
      auto const x = to_device(
          device, std::vector<float>{static_cast<float>(1 + world.rank() + 10 * half)}, {1});
      return std::optional(ops::multiply(tape, x, weight));
    });
    EXPECT_THAT(exchanged, ::testing::Contains(HasSubstr("all_reduce")));
    gate.open();
    EXPECT_EQ(to_host(tape.gradient(weight))[0], (1 + 2 + 11 + 12) / 4.0F);
    EXPECT_EQ(to_host(loss)[0], 2 * (1 + 2 + 11 + 12) / 4.0F);
  });
}

TYPED_TEST(HalfBatchesOverlap, the_second_half_runs_while_the_first_is_held) {
  using R = TypeParam;
  on_worlds<R>(2, [](comm::World const& world, Device<R> const& device) {
    Parameters<R> parameters(device);
    auto const weight = parameters.dense("weight", {1}, init::constant(2));
    HalfBatches<R> const halves(device, parameters, world);
    GradientTape<R> tape(device);
    Gate gate;
    std::vector<std::string> run;
    (void)halves.backward(tape, [&](int half) {
      if (half == 0) {
        gate.hold(halves.group(0).compute());
      } else {
        device.start_spans();
      }
      auto const loss =
          ops::multiply(tape, to_device(device, std::vector<float>{1.0F}, {1}), weight);
      if (half == 1) {
        // Returns while all work of the first half is held.
        halves.group(1).synchronize();
        for (auto const& span : device.stop_spans().spans()) {
          run.push_back(span.lane + " " + span.name);
        }
      }
      return std::optional(loss);
    });
    EXPECT_THAT(run, ::testing::Contains(HasSubstr("multiply")));
    gate.open();
    EXPECT_EQ(to_host(tape.gradient(weight))[0], 1);
  });
}

}  // namespace
}  // namespace msstream::testing
