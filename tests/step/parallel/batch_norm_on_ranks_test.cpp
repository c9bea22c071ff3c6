// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "comm/kept_ranks.hpp"
#include "memory/runtimes.hpp"
#include "step/parallel/normed_ranks.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/data_parallel.hpp>
#include <msstream/step/dense_stack.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

constexpr double kNormTolerance = 2e-5;

template <class R>
class BatchNormOnRanks : public RanksTest<R> {};
TYPED_TEST_SUITE(BatchNormOnRanks, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(BatchNormOnRanks, results_and_gradients_are_those_of_the_whole_batch) {
  auto const seed = test_seed() % 1000000;
  for (bool const is_dice : {false, true}) {
    for (bool const is_masked : {false, true}) {
      auto how = random_norm(seed + (is_dice ? 1 : 0) + (is_masked ? 2 : 0));
      how.is_dice = is_dice;
      how.is_masked = is_masked;
      how.has_one_weight = is_dice && is_masked;
      how.rows = std::min<std::int64_t>(how.rows, 40);
      how.width = std::min<std::int64_t>(how.width, 12);
      auto const expected = norm_reference(how);
      for (int const ranks : numbers_of_ranks<TypeParam>({1, 2, 3, 4})) {
        for (bool const has_rows_on_all : {false, true}) {
          SCOPED_TRACE(std::to_string(ranks) + " ranks, dice: " + std::to_string(is_dice) +
                       ", mask: " + std::to_string(is_masked) +
                       ", rows on all: " + std::to_string(has_rows_on_all));
          how.has_rows_on_all = has_rows_on_all;
          EXPECT_LT(off_by(normed_on_ranks<TypeParam>(ranks, how), expected), kNormTolerance);
        }
      }
    }
  }
}

TYPED_TEST(BatchNormOnRanks, each_rank_by_itself_gives_other_results) {
  auto how = random_norm(5);
  how.rows = 20;
  how.width = 4;
  how.has_rows_on_all = true;  // otherwise one of two ranks has the whole batch
  for (bool const is_dice : {false, true}) {
    how.is_dice = is_dice;
    EXPECT_GT(off_by(normed_on_ranks<TypeParam>(3, how, false), norm_reference(how)), 1e-3);
  }
}

TYPED_TEST(BatchNormOnRanks, means_far_from_zero_and_apart_lose_no_bits) {
  HowNormed how;
  how.offset = 1000;
  EXPECT_LT(off_by(normed_on_ranks<TypeParam>(4, how), norm_reference(how)), 2e-4);
}

TYPED_TEST(BatchNormOnRanks, many_rows_are_summed_in_chunks) {
  HowNormed how;
  how.rows = 300;
  how.width = 3;
  for (bool const is_dice : {false, true}) {
    how.is_dice = is_dice;
    EXPECT_LT(off_by(normed_on_ranks<TypeParam>(3, how), norm_reference(how)), kNormTolerance);
  }
}

TYPED_TEST(BatchNormOnRanks, bits_are_equal_for_all_groups_eager_and_captured) {
  auto how = random_norm(9);
  for (bool const is_dice : {false, true}) {
    how.is_dice = is_dice;
    how.is_masked = true;
    how.groups = 0;
    how.is_captured = false;
    auto const expected = normed_on_ranks<TypeParam>(3, how);
    for (int const groups : {0, 1, 2, 4}) {
      for (bool const is_captured : {false, true}) {
        SCOPED_TRACE(std::to_string(groups) + " groups, captured: " + std::to_string(is_captured));
        how.groups = groups;
        how.is_captured = is_captured;
        expect_same_bits(normed_on_ranks<TypeParam>(3, how), expected);
      }
    }
  }
}

TYPED_TEST(BatchNormOnRanks, one_rank_has_the_bits_of_a_batch_norm_without_ranks) {
  auto how = random_norm(test_seed() % 1000000);
  for (bool const is_dice : {false, true}) {
    how.is_dice = is_dice;
    expect_same_bits(normed_on_ranks<TypeParam>(1, how, true),
                     normed_on_ranks<TypeParam>(1, how, false));
  }
}

TYPED_TEST(BatchNormOnRanks, a_stack_trains_on_ranks_as_on_one) {
  using R = TypeParam;
  constexpr std::int64_t kRows = 24;
  auto const trained = [](int ranks, bool is_captured) {
    std::vector<float> state;
    std::vector<float> evaluated;
    std::mutex mutex;
    on_kept_ranks<R>(ranks, [&](Rank<R> const& rank) {
      auto const part = uneven_parts(kRows, rank.size())[static_cast<std::size_t>(rank.rank())];
      Parameters<R> parameters(rank.device, {.seed = 7});
      DenseStack<R> const stack(parameters,
                                "tower",
                                6,
                                {8, 5, 1},
                                {.activation = TrainedActivation::dice, .batch_norm = true});
      DataParallel<R> const parallel(parameters, rank.communicator, {.bucket_bytes = 64});
      Optimizer<R> optimizer(rank.device,
                             {.kind = ops::OptimizerKind::sgd, .learning_rate = 0.05F});
      optimizer.add(parameters);
      GradientTape<R> tape(rank.device);
      auto const all = to_device(rank.device, random_elements<float>(3, kRows * 6), {kRows, 6});
      auto const labels = to_device(rank.device, random_elements<float>(4, kRows), {kRows, 1});
      auto const rows = all.rows(part.begin, part.end);
      auto const own_labels = labels.rows(part.begin, part.end);
      auto const samples = rank.tensor(std::vector<float>{static_cast<float>(part.rows())});
      auto const step = [&] {
        tape.without_gradient(rows);
        auto const output = stack(tape, rows, {.ranks = rank.communicator});
        auto const loss = ops::mse_loss(tape, output, own_labels);
        parallel.backward(tape, parallel.weighted(tape, loss, samples));
        optimizer.step(tape);
        tape.clear();
      };
      std::optional<CapturedStep<R>> captured;
      if (is_captured) {
        captured.emplace(rank.device, step);
      }
      for (int i = 0; i < 5; ++i) {
        captured ? (void)captured->replay() : step();
      }
      std::vector<float> own;
      parameters.visit_state([&](std::string const&, auto const& tensor) {
        auto const elements = to_host(tensor);
        for (auto const element : elements) {
          own.push_back(to_float(element));
        }
      });
      auto const scores = to_host(stack(no_tape, all, {.ranks = rank.communicator}));
      std::lock_guard const guard(mutex);
      EXPECT_TRUE(state.empty() || bits_of(own) == bits_of(state)) << "ranks differ";
      EXPECT_TRUE(evaluated.empty() || bits_of(scores) == bits_of(evaluated));
      state = own;
      evaluated = scores;
    });
    state.insert(state.end(), evaluated.begin(), evaluated.end());
    return state;
  };
  auto const whole = trained(1, false);
  std::vector<double> const expected(whole.begin(), whole.end());
  for (int const ranks : {2, 3}) {
    auto const eager = trained(ranks, false);
    EXPECT_LT(off_by(eager, expected), 1e-4) << ranks << " ranks";
    if (!is_by_nccl<R>) {
      EXPECT_EQ(bits_of(trained(ranks, true)), bits_of(eager));
    }
  }
}

TYPED_TEST(BatchNormOnRanks, wrong_shapes_are_refused_before_the_ranks_meet) {
  using R = TypeParam;
  on_ranks<R>(2, [&](Rank<R> const& rank) {
    GradientTape<R> tape(rank.device);
    auto const vector = [&](std::int64_t count) {
      return rank.tensor(std::vector<float>(static_cast<std::size_t>(count), 1.0F));
    };
    auto const input = vector(6).reshaped({2, 3});
    auto const refused = [&](std::int64_t weight, std::int64_t mean, float momentum) {
      return message_of<std::invalid_argument>([&] {
        (void)ops::batch_norm(tape,
                              input,
                              vector(weight),
                              vector(3),
                              {vector(mean), vector(3)},
                              {.momentum = momentum},
                              rank.communicator);
      });
    };
    EXPECT_THAT(refused(2, 3, 0.1F), ::testing::HasSubstr("weight [2], bias [3]"));
    EXPECT_THAT(refused(3, 4, 0.1F), ::testing::HasSubstr("running mean [4]"));
    EXPECT_THAT(refused(3, 3, 2.0F), ::testing::HasSubstr("momentum of 2"));
    auto const bad_slope = message_of<std::invalid_argument>([&] {
      (void)ops::dice(tape, input, vector(2), {vector(3), vector(3)}, {}, rank.communicator);
    });
    EXPECT_THAT(bad_slope, ::testing::HasSubstr("dice: input [2, 3], weight [2]"));
    comm::barrier(rank.communicator);
    rank.communicator.synchronize();
  });
}

}  // namespace
}  // namespace msstream::testing
