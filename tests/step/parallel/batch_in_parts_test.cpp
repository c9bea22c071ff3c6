// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "comm/ranks.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/data_parallel.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kNumbersOfRow = 3;
constexpr std::int64_t kIdsOfRow = 2;
constexpr std::int64_t kHiddenOfParts = 6;
constexpr int kStepsInParts = 5;

struct HowInParts {
  std::int64_t rows = 29;
  int groups = 0;  ///< the groups on which the lookups are; 0: no scopes
  bool is_captured = false;
  std::int64_t bucket_bytes = 64;
  comm::Reduction reduction = comm::Reduction::mean;
  Reproducible reproducible = Reproducible::any_rank_count;
};

/// The losses of all steps, and the last values of all parameters, as bits.
struct TrainedInParts {
  std::vector<float> losses;
  std::vector<float> values;

  friend bool operator==(TrainedInParts const& a, TrainedInParts const& b) {
    return bits_of(a.losses) == bits_of(b.losses) && bits_of(a.values) == bits_of(b.values);
  }
};

/// A model with two tables and two layers, and a batch of which it can take some rows.
template <Runtime R>
class ModelInParts {
 public:
  ModelInParts(Device<R> const& device, std::int64_t rows, std::uint64_t seed, int groups)
      : device_(device), rows_(rows), parameters_(device, {.seed = seed}) {
    std::mt19937_64 engine(7);
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < 2 * rows * kIdsOfRow; ++i) {
      ids.push_back(static_cast<std::int64_t>(engine() % 12) - 1);  // -1 stands for none
    }
    auto labels = random_elements<float>(8, static_cast<std::size_t>(rows));
    for (auto& label : labels) {
      label = label > 0 ? 1.0F : 0.0F;
    }
    ids_.emplace(to_device(device, ids, {2 * rows, kIdsOfRow}));
    x_.emplace(to_device(device,
                         random_elements<float>(9, static_cast<std::size_t>(rows * kNumbersOfRow)),
                         {rows, kNumbersOfRow}));
    labels_.emplace(to_device(device, labels, {rows, 1}));
    if (groups > 0) {
      pool_.emplace(device, StreamPoolOptions{.groups = groups, .log = nullptr});
    }
  }

  [[nodiscard]] Parameters<R> const& parameters() const { return parameters_; }
  /// Returns the mean loss of the rows [begin, end).
  [[nodiscard]] Tensor<float, R> loss(GradientTape<R>& tape, std::int64_t begin, std::int64_t end) {
    std::vector<Tensor<float, R>> columns{x_->rows(begin, end)};
    tape.without_gradient(columns[0]);
    for (int t = 0; t < 2; ++t) {
      std::optional<StreamScope<R>> scope;
      if (pool_) {
        scope.emplace((*pool_)[(t + 1) % pool_->groups()],
                      StreamScopeOptions{.include_grad = true});
      }
      auto const own = ids_->rows(t * rows_ + begin, t * rows_ + end);
      columns.push_back(ops::embedding_lookup(tape, t == 0 ? first_ : second_, ops::Bags<R>(own)));
    }
    std::optional<StreamScope<R>> scope;
    if (pool_) {
      scope.emplace((*pool_)[0], StreamScopeOptions{.include_grad = true});
    }
    auto const hidden = ops::relu(tape, ops::dense(tape, ops::concat(tape, columns), w1_, b1_));
    return ops::mean_bce_with_logits(
        tape, ops::matmul(tape, hidden, w2_), labels_->rows(begin, end));
  }
  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> all;
    for (auto const& tensor : {first_, second_, w1_, b1_, w2_}) {
      auto const own = to_host(tensor);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

 private:
  Device<R> device_;
  std::int64_t rows_;
  Parameters<R> parameters_;
  Tensor<float, R> first_ = parameters_.table("first", {11, 4}, init::uniform(-1, 1));
  Tensor<float, R> second_ = parameters_.table("second", {17, 2}, init::uniform(-1, 1));
  Tensor<float, R> w1_ =
      parameters_.dense("w1", {kNumbersOfRow + 6, kHiddenOfParts}, init::uniform(-1, 1));
  Tensor<float, R> b1_ = parameters_.dense("b1", {kHiddenOfParts}, init::uniform(-1, 1));
  Tensor<float, R> w2_ = parameters_.dense("w2", {kHiddenOfParts, 1}, init::uniform(-1, 1));
  std::optional<Tensor<std::int64_t, R>> ids_;
  std::optional<Tensor<float, R>> x_;
  std::optional<Tensor<float, R>> labels_;
  std::optional<StreamPool<R>> pool_;
};

[[nodiscard]] ops::OptimizerRule rule_in_parts() {
  return {.kind = ops::OptimizerKind::adam, .learning_rate = 0.05F, .epsilon = 1e-3F};
}
/// Clips, so that the global norm of the gradients matters.
[[nodiscard]] OptimizerOptions clipped() {
  return {.clip_norm = 0.1F};
}

/// Calls `step` in each step, or captures it and replays it, and returns the losses.
template <Runtime R, class Step>
std::vector<float> losses_of(Device<R> const& device, bool is_captured, Step const& step) {
  std::optional<Tensor<float, R>> loss;
  std::optional<CapturedStep<R>> captured;
  if (is_captured) {
    captured.emplace(device, [&] { loss = step(); });
  }
  std::vector<float> losses;
  for (int i = 0; i < kStepsInParts; ++i) {
    if (captured) {
      captured->replay();
    } else {
      loss = step();
    }
    losses.push_back(to_host(*loss)[0]);
  }
  return losses;
}

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

/// Trains on the whole batch on one device.
template <Runtime R>
TrainedInParts train_whole(std::int64_t rows) {
  Device<R> const device;
  ModelInParts<R> model(device, rows, 0, 0);
  Optimizer<R> optimizer(device, rule_in_parts(), clipped());
  optimizer.add(model.parameters());
  GradientTape<R> tape(device);
  auto losses = losses_of(device, false, [&] {
    auto const loss = model.loss(tape, 0, rows);
    tape.backward(loss);
    optimizer.step(tape);
    tape.clear();
    return loss;
  });
  return {std::move(losses), model.values()};
}

void expect_near_whole(std::vector<float> const& found, std::vector<float> const& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-4 * (1 + std::abs(expected[i]))) << "element " << i;
  }
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
