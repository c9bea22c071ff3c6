// SPDX-License-Identifier: Apache-2.0
// Tests that a data parallel step gathers the ids of its lookups before its backward.
#include "comm/ranks.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/data_parallel.hpp>
#include <msstream/step/record_step.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using comm::CollectiveKind;
using ::testing::ElementsAre;
using ::testing::Pair;

/// Rows of tables of which a rank sends the gradients of its 6 outputs, and those of distinct rows.
constexpr std::int64_t kManyRows = 40;
constexpr std::int64_t kFewRows = 5;
constexpr std::int64_t kSamplesOfRank = 6;
constexpr std::int64_t kIdsOfRank = 18;  ///< of a rank

/// Selects the use that a rank makes of its lookup in a step.
enum class Use : std::uint8_t {
  once,
  twice,     ///< there are two lookups
  unneeded,  ///< the loss does not depend on it
  none,      ///< there is no lookup
};

/// The lookups of a model, and the samples of two ranks, which one rank may have together.
struct HowLookups {
  std::int64_t rows;
  ops::Pooling pooling = ops::Pooling::sum;
  int narrow_from = 2;  ///< ranks from this one on have int32 ids, and those before it int64 ids
  std::int64_t samples_of_last = kSamplesOfRank;
  ops::OptimizerKind rule = ops::OptimizerKind::adam;

  /// Returns the samples of a rank of `ranks`.
  [[nodiscard]] std::int64_t samples_of(int rank, int ranks) const {
    auto const whole = kSamplesOfRank + samples_of_last;
    return ranks == 1 ? whole : rank == 0 ? kSamplesOfRank : samples_of_last;
  }
};

/// A table of rows of 4, and a weight of [4, 1], trained on samples of 3 ids: 6 a rank, unless the
/// last rank has others.
template <Runtime R>
class LookupModel {
 public:
  LookupModel(Rank<R> const& rank, std::int64_t rows) : LookupModel(rank, HowLookups{rows}) {}
  LookupModel(Rank<R> const& rank, HowLookups const& how)
      : device_(rank.device),
        pooling_(how.pooling),
        samples_(how.samples_of(rank.rank(), rank.size())),
        share_(static_cast<float>(samples_ * rank.size()) /
               static_cast<float>(how.samples_of(0, 1))),
        parameters_(device_, {.seed = 1}),
        table_(parameters_.table("table", {how.rows, 4}, init::uniform(-1, 1))),
        weight_(parameters_.dense("weight", {4, 1}, init::normal())),
        bags_(bags_of(rank, how, samples_)),
        labels_(rank.tensor(std::vector<float>(static_cast<std::size_t>(samples_), 1))
                    .reshaped({samples_, 1})),
        none_(zeros<float>(device_, {samples_, 4})),
        tape_(device_),
        optimizer_(device_, {.kind = how.rule, .learning_rate = 0.1F}),
        parallel_(parameters_, rank.communicator) {
    optimizer_.add(parameters_);
  }

  void step(Use use = Use::once) {
    loss_ = parallel_.backward_in_parts(tape_, [&](int) {
      auto rows = use == Use::none ? none_ : look_up();
      if (use == Use::twice) {
        rows = ops::add(tape_, rows, look_up());
      } else if (use == Use::unneeded) {
        rows = none_;
      }
      auto const loss =
          ops::mean_bce_with_logits(tape_, ops::matmul(tape_, rows, weight_), labels_);
      return std::optional(share_ == 1 ? loss : ops::scale(tape_, loss, share_));
    });
    optimizer_.step(tape_);
    tape_.clear();
  }
  [[nodiscard]] std::vector<float> table() const { return to_host(table_); }
  [[nodiscard]] StepTrace record(Use use) {
    return record_step(device_, [&] { step(use); });
  }

 private:
  /// Ranks share some ids, and each has some twice. One rank has those of two.
  template <Element Id>
  static Tensor<Id, R> ids_of(Rank<R> const& rank, HowLookups const& how, std::int64_t samples) {
    std::vector<Id> ids;
    for (std::int64_t i = 0; i < 3 * samples; ++i) {
      auto const other = i / kIdsOfRank;
      ids.push_back(
          static_cast<Id>(((i - other * kIdsOfRank) % 11 + 7 * (rank.rank() + other)) % how.rows));
    }
    return rank.tensor(ids).reshaped({samples, 3});
  }
  static ops::Bags<R> bags_of(Rank<R> const& rank, HowLookups const& how, std::int64_t samples) {
    return rank.rank() >= how.narrow_from ? ops::Bags<R>(ids_of<std::int32_t>(rank, how, samples))
                                          : ops::Bags<R>(ids_of<std::int64_t>(rank, how, samples));
  }
  [[nodiscard]] Tensor<float, R> look_up() {
    return ops::embedding_lookup(tape_, table_, bags_, {.pooling = pooling_});
  }

  Device<R> device_;
  ops::Pooling pooling_;
  std::int64_t samples_;
  float share_;  ///< of the rank's loss in the mean over all samples, times the ranks
  Parameters<R> parameters_;
  Tensor<float, R> table_;
  Tensor<float, R> weight_;
  ops::Bags<R> bags_;
  Tensor<float, R> labels_;
  Tensor<float, R> none_;
  GradientTape<R> tape_;
  Optimizer<R> optimizer_;
  DataParallel<R> parallel_;
  std::optional<Tensor<float, R>> loss_;
};

/// The collectives of a step in their order, and the bytes that a rank gives to each.
std::vector<std::pair<CollectiveKind, std::size_t>> collectives_in_order(StepTrace const& trace) {
  std::vector<std::pair<CollectiveKind, std::size_t>> all;
  for (auto const& operation : trace.operations()) {
    if (operation.collective) {
      all.emplace_back(operation.collective->kind, operation.collective->bytes);
    }
  }
  return all;
}

/// Returns the names of all operations on which the last one of the name depends.
std::vector<std::string> needed_by(StepTrace const& trace, std::string_view name) {
  auto const& operations = trace.operations();
  std::vector<bool> is_needed(operations.size());
  std::vector<std::string> names;
  bool is_found = false;
  for (auto i = operations.size(); i-- > 0;) {
    bool const is_it = !is_found && operations[i].name == name;
    is_found = is_found || is_it;
    if (is_needed[i]) {
      names.push_back(operations[i].name);
    }
    if (is_needed[i] || is_it) {
      for (auto const before : operations[i].after) {
        is_needed[before] = true;
      }
    }
  }
  EXPECT_TRUE(is_found) << name;
  return names;
}

template <class R>
class IdsAhead : public RanksTest<R> {
 protected:
  /// Returns the table after steps in which rank 1 uses its lookup so, and all others once.
  static std::vector<float> trained(std::int64_t rows, std::vector<Use> const& uses) {
    std::mutex mutex;
    std::map<int, std::vector<float>> tables;
    on_ranks<R>(2, [&](Rank<R> const& rank) {
      LookupModel<R> model(rank, rows);
      for (auto const use : uses) {
        model.step(rank.rank() == 1 ? use : Use::once);
      }
      auto table = model.table();
      std::lock_guard const guard(mutex);
      tables[rank.rank()] = std::move(table);
    });
    EXPECT_EQ(tables[0], tables[1]);
    return tables[0];
  }
};
TYPED_TEST_SUITE(IdsAhead, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(IdsAhead, the_ids_and_the_loss_are_gathered_before_the_backward) {
  on_ranks<TypeParam>(2, [](Rank<TypeParam> const& rank) {
    LookupModel<TypeParam> model(rank, kFewRows);
    model.step();
    auto const trace = model.record(Use::once);
    // The ids, the loss, the weight's gradient and the rows.
    EXPECT_THAT(
        collectives_in_order(trace),
        ElementsAre(Pair(CollectiveKind::all_gather, kFewRows * 8),
                    Pair(CollectiveKind::all_gather, 4),
                    Pair(CollectiveKind::all_reduce, 4 * 4 * static_cast<std::size_t>(rank.size())),
                    Pair(CollectiveKind::all_gather, kFewRows * 4 * 4)));
    // Grouping the ids of all ranks waits for no gradient, and not even for the lookup.
    EXPECT_THAT(
        needed_by(trace, "data_parallel/deduplicate"),
        ::testing::UnorderedElementsAre(
            "gradients/deduplicate", "data_parallel/ids_of_table", "data_parallel/all_gather"));
  });
}

TYPED_TEST(IdsAhead, gradients_of_outputs_go_before_the_last_bucket) {
  on_ranks<TypeParam>(2, [](Rank<TypeParam> const& rank) {
    LookupModel<TypeParam> model(rank, kManyRows);
    model.step();
    auto const trace = model.record(Use::once);
    EXPECT_THAT(collectives_in_order(trace),
                ElementsAre(Pair(CollectiveKind::all_gather, kIdsOfRank * 8),
                            Pair(CollectiveKind::all_gather, 4),
                            Pair(CollectiveKind::all_gather, kSamplesOfRank * 4 * 4),
                            Pair(CollectiveKind::all_reduce,
                                 4 * 4 * static_cast<std::size_t>(rank.size()))));
    EXPECT_THAT(needed_by(trace, "data_parallel/deduplicate"),
                ElementsAre("data_parallel/all_gather"));
    // Once for the rows of all ranks, and not for those of this one.
    EXPECT_EQ(std::ranges::count_if(
                  trace.operations(),
                  [](auto const& one) { return one.name.ends_with("embedding_gradient"); }),
              1);
  });
}

TYPED_TEST(IdsAhead, ids_of_two_lookups_go_with_their_rows) {
  on_ranks<TypeParam>(2, [](Rank<TypeParam> const& rank) {
    LookupModel<TypeParam> model(rank, kManyRows);
    auto const use = rank.rank() == 0 ? Use::once : Use::twice;
    model.step(use);
    auto const most = std::min(kManyRows, 2 * kIdsOfRank);  // of rank 1, merged
    EXPECT_THAT(
        collectives_in_order(model.record(use)),
        ElementsAre(Pair(CollectiveKind::all_gather, 4),
                    Pair(CollectiveKind::all_reduce, 4 * 4 * static_cast<std::size_t>(rank.size())),
                    Pair(CollectiveKind::all_gather, most * 8),
                    Pair(CollectiveKind::all_gather, most * 4 * 4)));
  });
}

// Adam would move the rows again if they took part with gradients of 0.
TYPED_TEST(IdsAhead, ids_without_a_gradient_do_not_move_rows) {
  for (auto const rows : {kManyRows, kFewRows}) {
    auto const moved = [&](Use use) {
      return IdsAhead<TypeParam>::trained(rows, {Use::once, use});
    };
    auto const expected = moved(Use::none);
    EXPECT_EQ(moved(Use::unneeded), expected) << rows;
    EXPECT_NE(moved(Use::once), expected) << rows;
  }
}

// The steps of two ranks are those of one that has the samples of both, up to rounding. Ranks with
// ids of different types send distinct rows.
TYPED_TEST(IdsAhead, two_ranks_train_as_one_with_each_pooling_and_type_of_ids) {
  for (int choice = 0; choice < 24; ++choice) {
    HowLookups const how{.rows = (choice & 1) != 0 ? kManyRows : kFewRows,
                         .pooling = (choice & 2) != 0 ? ops::Pooling::mean : ops::Pooling::sum,
                         .narrow_from = choice / 8,
                         .samples_of_last = (choice & 4) != 0 ? kSamplesOfRank - 2 : kSamplesOfRank,
                         .rule = ops::OptimizerKind::sgd};
    auto const trained_on = [&](int ranks) {
      std::vector<float> table;
      on_ranks<TypeParam>(ranks, [&](Rank<TypeParam> const& rank) {
        SCOPED_TRACE("choice " + std::to_string(choice) + ", rank " + std::to_string(rank.rank()));
        LookupModel<TypeParam> model(rank, how);
        model.step();
        model.step();
        if (rank.size() > 1) {
          // That of the ids is the first, with room for those of the rank that has the most.
          std::size_t const id_bytes = how.narrow_from == 0 ? 4 : 8;
          auto const sent = how.rows == kManyRows ? kIdsOfRank * id_bytes : kFewRows * 8;
          EXPECT_EQ(collectives_in_order(model.record(Use::once)).front(),
                    std::pair(CollectiveKind::all_gather, sent));
        } else {
          model.step();
        }
        if (rank.rank() == 0) {
          table = model.table();
        }
      });
      return table;
    };
    auto const expected = trained_on(1);
    auto const found = trained_on(2);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 1e-5) << "choice " << choice << ", element " << i;
    }
  }
}

// Of 8 rows, distinct ones are 192 bytes with their ids, and 6 outputs with 18 ids are 168 bytes if
// these are int32, and 240 if they are int64.
TYPED_TEST(IdsAhead, ids_of_four_bytes_let_outputs_be_sent_that_others_do_not) {
  for (bool const is_narrow : {false, true}) {
    on_ranks<TypeParam>(2, [&](Rank<TypeParam> const& rank) {
      LookupModel<TypeParam> model(rank, HowLookups{.rows = 8, .narrow_from = is_narrow ? 0 : 2});
      model.step();
      std::size_t const sent = is_narrow ? 18 * 4 : 8 * 8;
      EXPECT_EQ(collectives_in_order(model.record(Use::once)).front(),
                std::pair(CollectiveKind::all_gather, sent));
    });
  }
}

}  // namespace
}  // namespace msstream::testing
