// SPDX-License-Identifier: Apache-2.0
// Tests that a data parallel step exchanges the gradients of a lookup in many tables at once.
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
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using comm::CollectiveKind;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pair;
using ::testing::Pointwise;

/// Selects the lookup of a rank in a step.
enum class UseOfMany : std::uint8_t {
  once,
  twice,     ///< there are two lookups
  unneeded,  ///< the loss does not depend on it
  none,      ///< there is no lookup
};

struct ManySetup {
  std::vector<std::int64_t> samples = {6, 6};  ///< of each rank
  bool has_short_ids = false;                  ///< ids are int32
  Reproducible reproducible = Reproducible::same_rank_count;
  std::optional<std::int64_t> default_id = {};  ///< of the second table
  /// By rank, the tables of each lookup, in the order in which they are recorded. By default one
  /// lookup in all.
  std::vector<std::vector<std::vector<std::size_t>>> lookups = {{{0, 1, 2}}, {{0, 1, 2}}};
};

constexpr std::int64_t kColumnsOfAllTables = 3 + 4 + 2;
constexpr std::int64_t kIdsInAllTables = 2 + 1 + 3;

/// Three tables, and a weight of [9, 1].
template <Runtime R>
class ManyModel {
 public:
  ManyModel(Rank<R> const& rank, ManySetup const& setup)
      : device_(rank.device),
        parameters_(device_, {.seed = 1}),
        all_(described(setup)),
        lookups_(setup.lookups[static_cast<std::size_t>(rank.rank())]),
        weight_(parameters_.dense("weight", {kColumnsOfAllTables, 1}, init::normal())),
        samples_(setup.samples[static_cast<std::size_t>(rank.rank())]),
        labels_(rank.tensor(std::vector<float>(static_cast<std::size_t>(samples_), 1))
                    .reshaped({samples_, 1})),
        none_(zeros<float>(device_, {samples_, kColumnsOfAllTables})),
        tape_(device_),
        optimizer_(device_, {.kind = ops::OptimizerKind::adam, .learning_rate = 0.1F}),
        parallel_(parameters_, rank.communicator, {.reproducible = setup.reproducible}) {
    optimizer_.add(parameters_);
    for (auto const& lookup : lookups_) {
      std::vector<ops::EmbeddingTable<R>> tables;
      std::vector<std::int64_t> ids;
      for (auto const number : lookup) {
        tables.push_back(all_[number]);
        for (std::int64_t i = 0; i < all_[number].hotness * samples_; ++i) {
          ids.push_back((i % 11 + 7 * rank.rank() + static_cast<std::int64_t>(number)) % 5);
        }
      }
      tables_.emplace_back(device_, tables);
      if (setup.has_short_ids) {
        ids_.push_back(rank.tensor(std::vector<std::int32_t>(ids.begin(), ids.end())));
      } else {
        ids_.push_back(rank.tensor(ids));
      }
    }
  }

  void step(UseOfMany use = UseOfMany::once) {
    auto const loss = parallel_.backward_in_parts(tape_, [&](int) {
      auto rows = use == UseOfMany::none ? none_ : look_up();
      if (use == UseOfMany::twice) {
        rows = ops::add(tape_, rows, look_up());
      } else if (use == UseOfMany::unneeded) {
        rows = none_;
      }
      return std::optional(
          ops::mean_bce_with_logits(tape_, ops::matmul(tape_, rows, weight_), labels_));
    });
    optimizer_.step(tape_);
    tape_.clear();
  }
  /// Returns the values of all tables.
  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> all;
    for (auto const& described : all_) {
      auto const table = to_host(std::get<Tensor<float, R>>(described.weights));
      all.insert(all.end(), table.begin(), table.end());
    }
    return all;
  }
  [[nodiscard]] StepTrace record() {
    return record_step(device_, [&] { step(); });
  }

 private:
  /// The second table has few rows, and the third one rows that no id names.
  std::vector<ops::EmbeddingTable<R>> described(ManySetup const& setup) {
    auto const table = [&](char const* name, std::int64_t rows, std::int64_t width) {
      return parameters_.table(name, {rows, width}, init::uniform(-1, 1));
    };
    return {{table("a", 40, 3), ops::Pooling::sum, 2},
            {table("b", 5, 4), ops::Pooling::mean, 1, setup.default_id},
            {table("c", 7, 2), ops::Pooling::mean, 3}};
  }
  /// Returns the rows of all tables, in their order.
  [[nodiscard]] Tensor<float, R> look_up() {
    std::map<std::size_t, Tensor<float, R>> by_first_table;
    for (std::size_t i = 0; i < lookups_.size(); ++i) {
      by_first_table.emplace(
          lookups_[i].front(),
          ops::embedding_lookup(tape_, tables_[i], {.ids = ids_[i], .batch = samples_}));
    }
    std::vector<Tensor<float, R>> rows;
    for (auto const& [first, of_lookup] : by_first_table) {
      rows.push_back(of_lookup);
    }
    return rows.size() == 1 ? rows.front() : ops::concat(tape_, rows);
  }

  Device<R> device_;
  Parameters<R> parameters_;
  std::vector<ops::EmbeddingTable<R>> all_;
  std::vector<std::vector<std::size_t>> lookups_;
  std::vector<ops::EmbeddingTables<R>> tables_;  ///< by lookup
  Tensor<float, R> weight_;
  std::int64_t samples_;
  std::vector<ops::IdTensor<R>> ids_;
  Tensor<float, R> labels_;
  Tensor<float, R> none_;
  GradientTape<R> tape_;
  Optimizer<R> optimizer_;
  DataParallel<R> parallel_;
};

/// The collectives of a step in their order, and the bytes that a rank gives to each.
std::vector<std::pair<CollectiveKind, std::size_t>> exchanges_of(StepTrace const& trace) {
  std::vector<std::pair<CollectiveKind, std::size_t>> all;
  for (auto const& operation : trace.operations()) {
    if (operation.collective) {
      all.emplace_back(operation.collective->kind, operation.collective->bytes);
    }
  }
  return all;
}

template <class R>
class TablesAhead : public RanksTest<R> {
 protected:
  /// Returns the tables after steps in which rank 1 uses its lookup so, and all others once.
  static std::vector<float> trained(ManySetup const& setup, std::vector<UseOfMany> const& uses) {
    std::mutex mutex;
    std::map<int, std::vector<float>> tables;
    on_ranks<R>(2, [&](Rank<R> const& rank) {
      ManyModel<R> model(rank, setup);
      for (auto const use : uses) {
        model.step(rank.rank() == 1 ? use : UseOfMany::once);
      }
      auto values = model.values();
      std::lock_guard const guard(mutex);
      tables[rank.rank()] = std::move(values);
    });
    EXPECT_EQ(tables[0], tables[1]);
    return tables[0];
  }
};
TYPED_TEST_SUITE(TablesAhead, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(TablesAhead, ids_and_gradients_of_all_tables_are_gathered_once) {
  for (bool const has_short_ids : {false, true}) {
    on_ranks<TypeParam>(2, [&](Rank<TypeParam> const& rank) {
      ManyModel<TypeParam> model(rank, {.has_short_ids = has_short_ids});
      model.step();
      auto const trace = model.record();
      constexpr std::size_t kSamples = 6;
      EXPECT_THAT(exchanges_of(trace),
                  ElementsAre(Pair(CollectiveKind::all_gather,
                                   kSamples * kIdsInAllTables * (has_short_ids ? 4 : 8)),
                              Pair(CollectiveKind::all_gather, 4),
                              Pair(CollectiveKind::all_gather, kSamples * kColumnsOfAllTables * 4),
                              Pair(CollectiveKind::all_reduce, ::testing::_)));
      EXPECT_EQ(std::ranges::count_if(
                    trace.operations(),
                    [](auto const& one) { return one.name.ends_with("update_tables"); }),
                1)
          << "sums and applies the gradients at once";
    });
  }
}

TYPED_TEST(TablesAhead, rows_move_as_by_the_gradients_of_each_table) {
  for (auto const& samples : {std::vector<std::int64_t>{6, 6}, {4, 6}, {6, 1}}) {
    for (bool const has_short_ids : {false, true}) {
      std::vector<UseOfMany> const uses(3, UseOfMany::once);
      auto const at_once = this->trained({samples, has_short_ids}, uses);
      auto const by_table =
          this->trained({samples, has_short_ids, Reproducible::any_rank_count}, uses);
      EXPECT_THAT(at_once, Pointwise(FloatNear(1e-5F), by_table))
          << ::testing::PrintToString(samples);
    }
  }
}

// Large enough for memory that copy engines of the other rank write to, in each of the steps.
TYPED_TEST(TablesAhead, large_gradients_of_outputs_move_the_same_rows) {
  std::vector<std::int64_t> const samples{240'000, 150'000};
  std::vector<UseOfMany> const uses(3, UseOfMany::once);
  auto const at_once = this->trained({.samples = samples}, uses);
  auto const by_table =
      this->trained({.samples = samples, .reproducible = Reproducible::any_rank_count}, uses);
  EXPECT_THAT(at_once, Pointwise(FloatNear(1e-4F), by_table));
}

TYPED_TEST(TablesAhead, ranks_may_divide_and_order_their_lookups_otherwise) {
  using Lookups = std::vector<std::vector<std::size_t>>;
  Lookups const all{{0, 1, 2}};
  Lookups const apart{{0, 1}, {2}};
  Lookups const reversed{{2}, {0, 1}};
  std::vector<UseOfMany> const uses(2, UseOfMany::once);
  auto const expected = this->trained({}, uses);
  for (auto const& of_rank_1 : {all, apart, reversed}) {
    for (auto const& of_rank_0 : {all, apart}) {
      EXPECT_THAT(this->trained({.lookups = {of_rank_0, of_rank_1}}, uses),
                  Pointwise(FloatNear(1e-5F), expected));
    }
  }
}

TYPED_TEST(TablesAhead, a_default_id_leaves_the_tables_to_themselves) {
  on_ranks<TypeParam>(2, [&](Rank<TypeParam> const& rank) {
    ManyModel<TypeParam> model(rank, {.default_id = 0});
    model.step();
    // The loss, the weight's gradient, and ids and rows of each table.
    EXPECT_EQ(exchanges_of(model.record()).size(), 2 + 2 * 3);
  });
}

// Adam would move the rows again if they took part with gradients of 0.
TYPED_TEST(TablesAhead, ids_without_a_gradient_do_not_move_rows) {
  auto const moved = [&](UseOfMany use) { return this->trained({}, {UseOfMany::once, use}); };
  auto const expected = moved(UseOfMany::none);
  EXPECT_EQ(moved(UseOfMany::unneeded), expected);
  EXPECT_NE(moved(UseOfMany::once), expected);
}

TYPED_TEST(TablesAhead, two_lookups_on_one_rank_move_the_rows_of_both) {
  std::vector<UseOfMany> const uses{UseOfMany::once, UseOfMany::twice};
  auto const expected = this->trained({.reproducible = Reproducible::any_rank_count}, uses);
  EXPECT_THAT(this->trained({}, uses), Pointwise(FloatNear(1e-5F), expected));
}

}  // namespace
}  // namespace msstream::testing
