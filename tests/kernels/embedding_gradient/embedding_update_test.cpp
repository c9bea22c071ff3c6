// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding_gradient/embedding_update_fixture.hpp"
#include "kernels/embedding_gradient/recorded_work.hpp"

#include <msstream/base/format.hpp>

#include <fmt/core.h>

#include <cstring>
#include <stdexcept>
#include <utility>

namespace msstream::ops::kernels::testing {
namespace {

template <class Stream>
class EmbeddingUpdateTest : public UpdateTest<Stream> {
 protected:
  template <class Id>
  void update_by_gradients(OptimizerRule const& rule,
                           StepState const* step,
                           UploadedCase<Id> const& uploaded,
                           UploadedTable const& table) {
    auto args = uploaded.args();
    auto const places = uploaded.some.places();
    auto const values = this->floats(places * args.width);
    auto const memory = this->workspace(
        row_gradient_workspace_bytes(this->stream(), args.bags, args.pooling, args.width));
    args.row_gradients = values.data();
    args.workspace = memory.data();
    RowUpdate const update{.table = table.weights.data(),
                           .dtype = table.dtype,
                           .numbers = this->numbers,
                           .width = args.width,
                           .row_ids = uploaded.unique_ids.data(),
                           .row_count = uploaded.unique_count.data(),
                           .capacity = places,
                           .gradients = values.data(),
                           .state0 = table.state0.data(),
                           .state1 = table.state1.data()};
    this->replay([&](Stream stream) {
      embedding_row_gradients(stream, args);
      update_rows(stream, rule, step, {&update, 1});
    });
  }

  /// Runs two optimizer steps by embedding_update() and by the separate kernels, from the same
  /// weights and state, and expects the same bits.
  template <class T = float>
  void expect_the_same_bits(OptimizerKind kind, DType dtype, GradientCase const& some) {
    SCOPED_TRACE(fmt::format("kind {}, {}, pooling {}, width {}, {} ids",
                             static_cast<int>(kind),
                             dtype,
                             static_cast<int>(some.pooling),
                             some.width,
                             some.ids.size()));
    auto const elements = some.rows * some.width;
    auto const rule = rule_of(kind);
    this->numbers = {.rate = 0.5F, .weight_decay = 0.02F, .clip_value = 0.75F};
    auto const step = this->upload(std::vector{StepState{}});
    auto const weights = this->random_table(dtype, elements);
    auto const state0 = this->random.reals(elements, 0.1F, 1.0F);
    auto const state1 = this->random.reals(elements, 0.1F, 1.0F);
    auto const table = [&]() -> UploadedTable {
      return {dtype, this->upload(weights), this->upload(state0), this->upload(state1)};
    };
    auto const fused = table();
    auto const apart = table();
    auto const argmax = this->random_argmax(some);
    for (int t = 0; t < 2; ++t) {
      auto const uploaded = this->template upload_case<std::int64_t>(
          some, this->template random_gradient<T>(some), argmax);
      advance_step(this->stream(), rule, step.data());
      this->update(rule, step.data(), uploaded, fused);
      update_by_gradients(rule, step.data(), uploaded, apart);
    }
    EXPECT_TRUE(this->read(fused.weights) == this->read(apart.weights));
    EXPECT_TRUE(this->read(fused.state0) == this->read(apart.state0));
    EXPECT_TRUE(this->read(fused.state1) == this->read(apart.state1));
    bool const moves = Groups(some).uniques > 0;
    EXPECT_EQ(this->read(fused.weights) != weights, moves);
  }
};
TYPED_TEST_SUITE(EmbeddingUpdateTest, StreamKinds, StreamKindName);

TYPED_TEST(EmbeddingUpdateTest, gives_the_bits_of_gradients_and_then_an_update) {
  for (auto const kind : kAllOptimizerKinds) {
    for (auto const dtype : {DType::float32, DType::float16, DType::bfloat16}) {
      for (std::int64_t const width : {1, 4, 20, 33, 64, 128, 256}) {
        for (std::int64_t const places : {300, 6000}) {
          auto some = GradientCase::fixed(this->random.integers(places, -20, 499), 2);
          some.rows = 500;
          some.width = width;
          some.pooling = places == 300 ? Pooling::sum : Pooling::mean;
          this->expect_the_same_bits(kind, dtype, some);
        }
      }
    }
  }
}

TYPED_TEST(EmbeddingUpdateTest, takes_all_poolings_weights_and_default_ids) {
  for (auto const kind : {OptimizerKind::sgd, OptimizerKind::rowwise_adagrad}) {
    for (auto const pooling : kPoolings) {
      auto some = this->random_bags(1500, 6, 9);
      some.existing = 1400;
      some.pooling = pooling;
      this->expect_the_same_bits(kind, DType::float32, some);
      if (pooling != Pooling::max) {
        some.weights = this->random.reals(some.capacity());
      }
      some.default_id = pooling != Pooling::none ? 3 : -1;
      this->expect_the_same_bits(kind, DType::float32, some);
      this->template expect_the_same_bits<float16>(kind, DType::float16, some);
    }
  }
}

TYPED_TEST(EmbeddingUpdateTest, takes_half_precision_gradients) {
  for (auto const kind : kAllOptimizerKinds) {
    for (std::int64_t const width : {4, 64, 128, 260}) {
      auto some = GradientCase::fixed(this->random.integers(6000, -20, 499), 2);
      some.rows = 500;
      some.width = width;
      some.pooling = Pooling::mean;
      this->template expect_the_same_bits<bfloat16>(kind, DType::bfloat16, some);
      this->template expect_the_same_bits<float16>(kind, DType::float32, some);
    }
  }
}

TYPED_TEST(EmbeddingUpdateTest, moves_a_hot_row_once) {
  for (auto const kind : kAllOptimizerKinds) {
    auto ids = this->random.integers(40'000, 0, 4'999);
    std::fill(ids.begin() + 3000, ids.end() - 3000, 4711);
    auto some = GradientCase::fixed(ids, 1);
    some.rows = 5'000;
    some.width = 32;
    this->expect_the_same_bits(kind, DType::float32, some);
  }
}

// The rows to add are so many that their columns are processed in several passes, except for a rule
// that needs whole rows.
TYPED_TEST(EmbeddingUpdateTest, takes_columns_in_turns) {
  for (auto const kind : {OptimizerKind::sgd, OptimizerKind::rowwise_adagrad}) {
    auto ids = this->random.integers(50'000, -9, 4'999);
    std::fill(ids.begin() + 20'000, ids.end() - 20'000, 4711);
    auto some = GradientCase::fixed(ids, 1);
    some.rows = 5'000;
    some.width = 128;
    this->expect_the_same_bits(kind, DType::float32, some);
  }
}

TYPED_TEST(EmbeddingUpdateTest, no_ids_and_no_valid_ids_move_nothing) {
  for (auto const kind : kAllOptimizerKinds) {
    for (std::int64_t const places : {0, 10, 5000}) {
      this->expect_the_same_bits(
          kind,
          DType::float32,
          GradientCase::fixed(Integers(static_cast<std::size_t>(places), -1), 1));
    }
  }
}

// The values are whole numbers and halves, so that sums and the results of a rule are exact in any
// order.
TYPED_TEST(EmbeddingUpdateTest, an_id_that_stands_often_changes_its_state_once) {
  for (std::int64_t const places : {4, 4000}) {
    auto ids = Integers(static_cast<std::size_t>(places), 1);
    auto some = GradientCase::fixed(ids, 1);
    some.rows = 2;
    some.width = 4;
    auto const uploaded = this->template upload_case<std::int64_t>(
        some, std::vector<float>(static_cast<std::size_t>(4 * places), 0.5F), {});
    auto const sum = 0.5F * static_cast<float>(places);
    UploadedTable const table{DType::float32,
                              this->upload(Bytes(32)),
                              this->upload(std::vector<float>(8, 0.0F)),
                              this->upload(std::vector<float>(8, 0.0F))};
    this->update(rule_of(OptimizerKind::rowwise_adagrad), nullptr, uploaded, table);
    EXPECT_EQ(this->read(table.state0)[1], sum * sum);
    EXPECT_EQ(this->read(table.state0)[0], 0.0F);
  }
}

TYPED_TEST(EmbeddingUpdateTest, many_runs_give_the_same_bits) {
  auto some = GradientCase::fixed(this->random.integers(30'000, 0, 999), 3);
  some.rows = 1000;
  some.width = 64;
  auto const uploaded = this->template upload_case<std::int64_t>(
      some, this->template random_gradient<float>(some), {});
  auto const weights = this->random_table(DType::float32, some.rows * some.width);
  Bytes first;
  for (int run = 0; run < 20; ++run) {
    std::vector<float> const state(static_cast<std::size_t>(some.rows * some.width), 0.0F);
    UploadedTable const table{
        DType::float32, this->upload(weights), this->upload(state), this->upload(state)};
    this->update(rule_of(OptimizerKind::adagrad), nullptr, uploaded, table);
    auto const moved = this->read(table.weights);
    if (run == 0) {
      first = moved;
    }
    ASSERT_TRUE(moved == first) << "run " << run;
  }
}

// One recording can be replayed with any contents and any number of bags up to its capacity.
TYPED_TEST(EmbeddingUpdateTest, one_recording_of_grouping_and_update_serves_every_count) {
  constexpr std::int64_t kRows = 800;
  constexpr std::int64_t kWidth = 32;
  for (std::int64_t const bags : {300, 2500}) {
    auto const rule = rule_of(OptimizerKind::rowwise_adagrad);
    auto const places = 2 * bags;
    auto const ids = this->integers(places);
    auto const bag_count = this->scalar(0);
    auto const gradient = this->floats(bags * kWidth);
    auto const table = this->floats(kRows * kWidth);
    auto const state = this->floats(kRows);
    auto const unique_ids = this->integers(places);
    auto const starts = this->template poisoned<std::int32_t>(places + 1);
    auto const positions = this->template poisoned<std::int32_t>(places);
    auto const ranks = this->template poisoned<std::int32_t>(places);
    auto const unique_count = this->integers(1);
    RowGradientArgs args{.bags = {.ids = ids.data(),
                                  .bags = bags,
                                  .capacity = places,
                                  .hotness = 2,
                                  .bag_count = bag_count.data()},
                         .rows = kRows,
                         .pooling = Pooling::mean,
                         .starts = starts.data(),
                         .positions = positions.data(),
                         .ranks = ranks.data(),
                         .unique_count = unique_count.data(),
                         .output_gradient = gradient.data(),
                         .gradient_dtype = DType::float32,
                         .width = kWidth,
                         .row_gradients = nullptr,
                         .workspace = nullptr};
    auto const sort_memory = this->workspace(deduplicate_workspace_bytes(this->stream(), places));
    auto const memory =
        this->workspace(embedding_update_workspace_bytes(this->stream(), rule.kind, args));
    args.workspace = memory.data();
    auto const issue = [&](TypeParam stream) {
      deduplicate(stream,
                  {.bags = args.bags,
                   .rows = kRows,
                   .unique_ids = unique_ids.data(),
                   .starts = starts.data(),
                   .positions = positions.data(),
                   .ranks = ranks.data(),
                   .unique_count = unique_count.data(),
                   .workspace = sort_memory.data()});
      embedding_update(stream,
                       rule,
                       nullptr,
                       {.gradient = args,
                        .unique_ids = unique_ids.data(),
                        .table = table.data(),
                        .table_dtype = DType::float32,
                        .state0 = state.data(),
                        .state1 = nullptr});
    };
    RecordedWork<TypeParam> recorded(this->stream(), issue);
    for (std::int64_t const existing : {bags, std::int64_t{0}, std::int64_t{1}, bags / 2, bags}) {
      auto some_ids = this->random.integers(places, -9, kRows);
      some_ids.front() = 5;  // makes one bag update a row
      this->write(ids, some_ids);
      this->write(bag_count, Integers{existing});
      this->write(gradient, this->random.reals(bags * kWidth));
      auto const weights = this->random.reals(kRows * kWidth);
      auto const run = [&](auto const& work) {
        this->write(table, weights);
        this->write(state, std::vector<float>(kRows, 1.0F));
        work();
        return std::pair(this->read(table), this->read(state));
      };
      auto const found = run([&] { recorded.run(); });
      auto const expected = run([&] { issue(this->stream()); });
      EXPECT_TRUE(found == expected) << existing << " bags";
      EXPECT_EQ(found.first != weights, existing > 0) << existing << " bags";
    }
  }
}

TYPED_TEST(EmbeddingUpdateTest, refuses_a_table_of_integers) {
  auto some = GradientCase::fixed(Integers(3000, 0), 1);
  auto const uploaded = this->template upload_case<std::int64_t>(
      some, this->template random_gradient<float>(some), {});
  UploadedTable const table{DType::int64,
                            this->upload(Bytes(64)),
                            this->upload(std::vector<float>(16, 0.0F)),
                            this->upload(std::vector<float>(16, 0.0F))};
  EXPECT_THROW(embedding_update(this->stream(),
                                rule_of(OptimizerKind::sgd),
                                nullptr,
                                {.gradient = uploaded.args(),
                                 .unique_ids = uploaded.unique_ids.data(),
                                 .table = table.weights.data(),
                                 .table_dtype = table.dtype,
                                 .state0 = nullptr,
                                 .state1 = nullptr}),
               std::invalid_argument);
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
