// SPDX-License-Identifier: Apache-2.0
// Tests checkpoints of tables that have other rows than those of the program, such as those of a
// vocabulary that has grown.
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "memory/runtimes.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/data/text_reader.hpp>
#include <msstream/data/transforms.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/step/parameters.hpp>
#include <msstream/tensor/copy.hpp>

#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using checkpoint::Tensors;
using data::Transform;
using data::Transforms;
using ops::OptimizerKind;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class R>
class GrownTable : public RuntimeTest<R> {
 protected:
  /// Returns the transforms of a column `item`, fitted to these words, and of the hashed `site`.
  [[nodiscard]] Transforms fitted(std::vector<std::string> const& words,
                                  std::int64_t oov_buckets = 2) const {
    std::string text = "item,site\n";
    for (auto const& word : words) {
      text += word + ",x\n";
    }
    auto const reader = std::make_shared<data::CsvReader>(
        data::TextFile(folder_.write("rows.csv", text)),
        data::TextOptions{
            .columns = {{.name = "item",
                         .type = data::ColumnType::hashed,
                         .transforms = {Transform::vocabulary({.oov_buckets = oov_buckets})}},
                        {.name = "site",
                         .type = data::ColumnType::hashed,
                         .transforms = {Transform::hash({3, oov_buckets == 2 ? 0U : 1U})}}}});
    Transforms transforms(reader->schema());
    transforms.fit(*reader);
    return transforms;
  }
  /// Returns a table of which row i has the elements 10 (i + first), and one more in each column.
  [[nodiscard]] Tensor<float, R> numbered(std::int64_t rows, int first) const {
    std::vector<float> values;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (int column = 0; column < 2; ++column) {
        values.push_back(static_cast<float>(10 * (row + first) + column));
      }
    }
    return to_device(device_, values, {rows, 2});
  }
  [[nodiscard]] static std::vector<float> first_column(Tensor<float, R> const& table) {
    auto const all = to_host(table);
    std::vector<float> values;
    for (std::size_t i = 0; i < all.size(); i += 2) {
      EXPECT_EQ(all[i + 1], all[i] + 1);
      values.push_back(all[i]);
    }
    return values;
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "model.safetensors";
  Device<R> device_;
};
TYPED_TEST_SUITE(GrownTable, Runtimes, RuntimeNames);

TYPED_TEST(GrownTable, rows_follow_their_words_into_a_vocabulary_in_another_order) {
  auto const before = this->fitted({"a", "a", "a", "b", "b", "c"});              // a 2, b 3, c 4
  auto const now = this->fitted({"d", "d", "d", "d", "c", "c", "c", "a", "a"});  // d 2, c 3, a 4
  auto const rows = checkpoint::rows_by_key(now, before, "item");
  EXPECT_THAT(rows, ElementsAre(0, 1, -1, 4, 2));
  checkpoint::save(this->path_,
                   Tensors(before)
                       .add("item", this->numbered(5, 100))
                       .add("optimizer/item/state0", this->numbered(5, 200)));

  auto const table = this->numbered(5, 0);
  auto const state = this->numbered(5, 10);
  auto const tensors = Tensors(now).add("item", table).add("optimizer/item/state0", state);
  checkpoint::load(
      this->path_,
      tensors,
      {.except = {"transforms/*"}, .rows = {{"item", rows}, {"optimizer/item/*", rows}}});
  EXPECT_THAT(this->first_column(table), ElementsAre(1000, 1010, 20, 1040, 1020));
  EXPECT_THAT(this->first_column(state), ElementsAre(2000, 2010, 120, 2040, 2020));
  EXPECT_EQ(now.word("item", 2), "d") << "the program's";
}

TYPED_TEST(GrownTable, ids_of_hashes_correspond_if_both_hash_alike) {
  auto const before = this->fitted({"a"});
  EXPECT_THAT(checkpoint::rows_by_key(this->fitted({"b"}), before, "site"), ElementsAre(0, 1, 2));
  auto const other = this->fitted({"b", "a"}, 1);  // with another salt, too
  EXPECT_THAT(checkpoint::rows_by_key(other, before, "site"), ElementsAre(-1, -1, -1));
  auto const of_items = checkpoint::rows_by_key(other, before, "item");
  EXPECT_EQ(of_items.size(), 3U);
  EXPECT_EQ(of_items.front(), -1) << "one id instead of two for values out of the vocabulary";
  EXPECT_THROW((void)checkpoint::rows_by_key(other, before, "user"), std::invalid_argument);
}

TYPED_TEST(GrownTable, a_whole_model_goes_on_with_more_rows) {
  auto const made = [&](std::int64_t rows) {
    Parameters<TypeParam> parameters(this->device_);
    (void)parameters.dense("w", {2, 1}, init::constant(static_cast<float>(rows)));
    (void)parameters.template table<float16>("item", {rows, 2}, init::constant(1.0F));
    return parameters;
  };
  auto const optimizer_of = [&](Parameters<TypeParam> const& parameters) {
    auto optimizer = std::make_unique<Optimizer<TypeParam>>(
        this->device_,
        ops::OptimizerRule{.kind = OptimizerKind::partial_rowwise_adam, .learning_rate = 0.1F});
    optimizer->add(parameters);
    return optimizer;
  };
  auto const small = made(3);
  checkpoint::save(this->path_, Tensors(small, *optimizer_of(small)));
  auto const grown = made(5);
  auto const optimizer = optimizer_of(grown);
  Tensors const tensors(grown, *optimizer);
  EXPECT_THAT(message_of<std::invalid_argument>([&] { checkpoint::load(this->path_, tensors); }),
              AllOf(HasSubstr("item (expected F16 [5, 2], found F16 [3, 2])"),
                    HasSubstr("optimizer/item/state1 (expected F32 [5], found F32 [3])")));
  std::vector<std::int64_t> const first{0, 1, 2};
  auto const loaded = checkpoint::load(
      this->path_, tensors, {.rows = {{"item", first}, {"optimizer/item/*", first}}});
  EXPECT_EQ(loaded.tensors.size(), tensors.count() + 1);  // and the rule
  EXPECT_THAT(to_host(grown.find("w")), ElementsAre(3, 3));
}

TYPED_TEST(GrownTable, any_rows_go_to_any_rows) {
  std::mt19937_64 random(std::random_device{}());
  for (int repeat = 0; repeat < 8; ++repeat) {
    auto const count_before = static_cast<std::int64_t>(1 + random() % 60);
    auto const count = static_cast<std::int64_t>(random() % 60);
    std::vector<std::int64_t> rows;
    std::vector<float> expected;
    for (std::int64_t i = 0; i < count; ++i) {
      bool const in_list = i < count - 3;
      auto const row = in_list ? static_cast<std::int64_t>(random()) % (count_before + 1) - 1 : -1;
      auto const valid = std::max<std::int64_t>(row, -1);
      if (in_list) {
        rows.push_back(valid);
      }
      expected.push_back(static_cast<float>(10 * (valid < 0 ? i : valid + 100)));
    }
    checkpoint::save(this->path_, Tensors().add("t", this->numbered(count_before, 100)));
    auto table = this->numbered(count, 0);
    if (repeat % 2 == 1) {
      table.freeze();
    }
    checkpoint::load(this->path_, Tensors().add("t", table), {.rows = {{"t", rows}}});
    EXPECT_EQ(this->first_column(table), expected);
  }
}

TYPED_TEST(GrownTable, rows_that_do_not_fit_are_refused) {
  checkpoint::save(this->path_,
                   Tensors().add("t", this->numbered(3, 0)).add("bias", this->numbered(1, 0)));
  auto const table = this->numbered(4, 7);
  auto const tensors = Tensors().add("t", table).add("bias", this->numbered(1, 0));
  auto const refused = [&](checkpoint::LoadOptions const& options, char const* words) {
    EXPECT_THAT(
        message_of<std::invalid_argument>([&] { checkpoint::load(this->path_, tensors, options); }),
        HasSubstr(words));
  };
  refused({.rows = {{"t", {0, 3}}}},
          "t (LoadOptions::rows has 3 for row 1; the file has 3 rows; expected -1 to 2");
  refused({.rows = {{"t", {1, 0, -2}}}}, "t (LoadOptions::rows has -2 for row 2; the file has 3");
  refused({.rows = {{"t", {0, 1, 2, 0, 1}}}},
          "t (LoadOptions::rows has 5 numbers; expected up to 4, one for each row");
  refused({.rows = {{"t", {0}}, {"user", {0}}}}, "patterns that match no tensor: user");
  refused({.transposed = {"t"}, .rows = {{"t", {0}}}}, "has no rows in the file");
  EXPECT_THAT(this->first_column(table), ElementsAre(70, 80, 90, 100));
}

}  // namespace
}  // namespace msstream::testing
