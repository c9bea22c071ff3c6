// SPDX-License-Identifier: Apache-2.0
#include "embedding/embedding_tables.hpp"
#include "kernels/many_elements/many_elements_fixture.hpp"

#include <fmt/core.h>

#include <cstdint>
#include <limits>

namespace msstream::ops::kernels::testing {
namespace {

/// The number of rows of a table of 4.3 GB in half precision, whose last row follows 2^31 elements.
constexpr std::int64_t kRows = (std::int64_t{1} << 25) + 1;
constexpr std::int64_t kWidth = 64;
static_assert((kRows - 1) * kWidth == std::int64_t{1} << 31);

template <class Stream>
class EmbeddingOfManyElementsTest : public ManyElements<Stream> {
 protected:
  /// Returns a table whose first row consists of ones and whose last two rows consist of twos and
  /// threes; nothing if there is too little memory.
  std::optional<Buffer<std::byte>> many_rows() {
    auto const table = this->template many<std::byte>(kRows * kWidth * 2);
    if (table) {
      set_half_row(*table, 0, 1.0F);
      set_half_row(*table, kRows - 2, 2.0F);
      set_half_row(*table, kRows - 1, 3.0F);
    }
    return table;
  }
  void set_half_row(Buffer<std::byte> const& table, std::int64_t row, float value) {
    this->write(half_row(table, row), packed(Floats(kWidth, value), DType::float16));
  }
  Floats read_half_row(Buffer<std::byte> const& table, std::int64_t row) {
    return unpacked(this->read(half_row(table, row)), DType::float16);
  }

 private:
  static Buffer<std::byte> half_row(Buffer<std::byte> const& table, std::int64_t row) {
    return table.slice(row * kWidth * 2, kWidth * 2);
  }
};
TYPED_TEST_SUITE(EmbeddingOfManyElementsTest, StreamKinds, StreamKindName);

TYPED_TEST(EmbeddingOfManyElementsTest, lookup_of_one_table) {
  auto const table = this->many_rows();
  if (!table) {
    return;
  }
  auto const expect_sums = [&](std::int64_t width,
                               Integers const& ids,
                               DType id_dtype,
                               Floats const& expected = {4.0F, 5.0F}) {
    auto const device_ids = this->upload(packed(ids, id_dtype));
    auto const output = this->floats(2 * width);
    this->replay([&](TypeParam stream) {
      embedding_lookup(stream,
                       {.table = table->data(),
                        .table_dtype = DType::float16,
                        .rows = kRows * kWidth / width,
                        .width = width,
                        .bags = {.ids = device_ids.data(),
                                 .id_dtype = id_dtype,
                                 .bags = 2,
                                 .capacity = 4,
                                 .hotness = 2},
                        .pooling = Pooling::sum,
                        .report = {},
                        .output = output.data(),
                        .output_dtype = DType::float32});
    });
    this->expect_rows(output, width, expected);
  };
  for (auto const dtype : {DType::int32, DType::int64}) {
    expect_sums(kWidth, {kRows - 1, 0, kRows - 2, kRows - 1}, dtype);
  }
  // With rows of one element, row numbers need more than 31 bits.
  expect_sums(1, {(kRows - 1) * kWidth, 0, (kRows - 2) * kWidth, kRows * kWidth - 1}, DType::int64);
  // The 32 bits of these negative ids are those of numbers of rows, and are no rows.
  constexpr std::int64_t kLeast = std::numeric_limits<std::int32_t>::min();
  expect_sums(1, {kLeast + 10, 0, 0, kLeast}, DType::int32, {1.0F, 1.0F});
}

// Row numbers of the second table need more than 31 bits.
TYPED_TEST(EmbeddingOfManyElementsTest, lookup_of_many_tables) {
  auto const table = this->many_rows();
  if (!table) {
    return;
  }
  auto const small = this->upload(Floats(12, 7.0F));
  for (std::int32_t const hotness : {1, 2}) {
    for (bool const is_jagged : {false, true}) {
      SCOPED_TRACE(fmt::format("hotness {}{}", hotness, is_jagged ? ", jagged" : ", fixed"));
      auto const plan =
          plan_tables({{.table = table->data(),
                        .rows = kRows,
                        .width = kWidth,
                        .hotness = hotness,
                        .dtype = DType::float16},
                       {.table = table->data(),
                        .rows = kRows * kWidth,
                        .width = 1,
                        .hotness = hotness,
                        .dtype = DType::float16},
                       {.table = small.data(), .rows = 3, .width = 4, .hotness = hotness}});
      constexpr std::int64_t kLast = (kRows - 1) * kWidth;
      Integers const ids{kRows - 1, 0, kRows - 2, kRows - 1, kLast, 0, kLast - kWidth, kLast + 1};
      auto all_ids = ids;
      all_ids.insert(all_ids.end(), {1, 1, 2, 2});
      auto const batch = 4 / hotness;
      Integers offsets;
      for (std::int64_t place = 0; place <= std::ssize(all_ids); place += hotness) {
        offsets.push_back(place);
      }
      auto const descriptors = this->upload(plan.tables);
      auto const table_of_tile = this->upload(plan.table_of_tile);
      auto const device_ids = this->upload(all_ids);
      auto const device_offsets = this->upload(offsets);
      auto const output = this->floats(batch * plan.width);
      this->replay([&](TypeParam stream) {
        embedding_tables_lookup(stream,
                                {.plan = &plan,
                                 .tables = descriptors.data(),
                                 .table_of_tile = table_of_tile.data(),
                                 .batch = batch,
                                 .ids = device_ids.data(),
                                 .capacity = std::ssize(all_ids),
                                 .offsets = is_jagged ? device_offsets.data() : nullptr,
                                 .output = output.data()});
      });
      Floats expected;
      for (float const sum : hotness == 1 ? Floats{3, 1, 2, 3} : Floats{4, 5}) {
        expected.insert(expected.end(), kWidth + 1, sum);
        expected.insert(expected.end(), 4, 7.0F * static_cast<float>(hotness));
      }
      EXPECT_EQ(this->read(output), expected);
    }
  }
}

TYPED_TEST(EmbeddingOfManyElementsTest, update_of_a_table) {
  auto const weights = this->many_rows();
  auto const states = weights ? this->template many<float>(kRows) : std::nullopt;
  if (!states) {
    return;
  }
  UploadedTable const table{DType::float16, *weights, *states, *states};
  // The values are halves and powers of two, so that all sums and updates are exact.
  constexpr float kRate = 0x1p-10F;
  for (auto const kind : {OptimizerKind::sgd, OptimizerKind::rowwise_adagrad}) {
    for (std::int64_t const places : {4, 4000}) {  // in one launch, and in several
      SCOPED_TRACE(fmt::format("kind {}, {} places", static_cast<int>(kind), places));
      Integers ids;
      while (std::ssize(ids) < places) {
        ids.insert(ids.end(), {kRows - 1, 0, kRows - 2, kRows - 1});
      }
      auto some = GradientCase::fixed(ids, 1);
      some.rows = kRows;
      some.width = kWidth;
      for (std::int64_t const row : {std::int64_t{0}, kRows - 3, kRows - 2, kRows - 1}) {
        this->set_half_row(*weights, row, 1.0F);
        this->write(states->slice(row, 1), Floats{0.0F});
      }
      this->update({.kind = kind, .learning_rate = kRate},
                   nullptr,
                   this->template upload_case<std::int64_t>(
                       some, Floats(static_cast<std::size_t>(places * kWidth), 0.5F), {}),
                   table);
      auto const expect_row = [&](std::int64_t row, std::int64_t times) {
        bool const is_sgd = kind == OptimizerKind::sgd;
        auto const gradient = 0.5F * static_cast<float>(times);
        auto const move = times == 0 ? 0.0F : is_sgd ? kRate * gradient : kRate;
        EXPECT_EQ(this->read_half_row(*weights, row), Floats(kWidth, 1.0F - move)) << "row " << row;
        EXPECT_EQ(this->read(states->slice(row, 1)), Floats{is_sgd ? 0.0F : gradient * gradient})
            << "row " << row;
      };
      expect_row(0, places / 4);
      expect_row(kRows - 3, 0);
      expect_row(kRows - 2, places / 4);
      expect_row(kRows - 1, places / 2);
    }
  }
}

TYPED_TEST(EmbeddingOfManyElementsTest, update_by_gradients_of_rows) {
  auto const weights = this->many_rows();
  if (!weights) {
    return;
  }
  auto const move_up = [&](std::int64_t width, Integers const& rows) {
    auto const ids = this->upload(rows);
    auto const count = this->scalar(std::ssize(rows));
    auto const gradients =
        this->upload(Floats(rows.size() * static_cast<std::size_t>(width), -1.0F));
    this->replay([&](TypeParam stream) {
      RowUpdate const update{.table = weights->data(),
                             .dtype = DType::float16,
                             .width = width,
                             .row_ids = ids.data(),
                             .row_count = count.data(),
                             .capacity = std::ssize(rows),
                             .gradients = gradients.data(),
                             .state0 = nullptr,
                             .state1 = nullptr};
      update_rows(stream,
                  {.kind = OptimizerKind::sgd, .learning_rate = 8.0F},
                  nullptr,
                  std::vector{update});
    });
  };
  move_up(kWidth, {kRows - 1, 0});
  EXPECT_EQ(this->read_half_row(*weights, 0), Floats(kWidth, 9.0F));
  EXPECT_EQ(this->read_half_row(*weights, kRows - 2), Floats(kWidth, 2.0F));
  EXPECT_EQ(this->read_half_row(*weights, kRows - 1), Floats(kWidth, 11.0F));
  // With rows of one element, row numbers need more than 31 bits.
  move_up(1, {(kRows - 1) * kWidth, kRows * kWidth - 1});
  Floats last(kWidth, 11.0F);
  last.front() = last.back() = 19.0F;
  EXPECT_EQ(this->read_half_row(*weights, 0), Floats(kWidth, 9.0F));
  EXPECT_EQ(this->read_half_row(*weights, kRows - 1), last);
}

TYPED_TEST(EmbeddingOfManyElementsTest, gradient_of_weights) {
  auto const table = this->many_rows();
  if (!table) {
    return;
  }
  auto const expect_products = [&](std::int64_t width, Integers const& ids, Floats const& sums) {
    auto const device_ids = this->upload(ids);
    auto const gradient = this->upload(Floats(static_cast<std::size_t>(2 * width), 0.5F));
    auto const output = this->floats(4);
    this->replay([&](TypeParam stream) {
      embedding_weight_gradient(
          stream,
          {.table = table->data(),
           .table_dtype = DType::float16,
           .rows = kRows * kWidth / width,
           .width = width,
           .bags = {.ids = device_ids.data(), .bags = 2, .capacity = 4, .hotness = 2},
           .pooling = Pooling::sum,
           .output_gradient = gradient.data(),
           .weight_gradient = output.data()});
    });
    EXPECT_EQ(this->read(output), sums);
  };
  expect_products(kWidth, {kRows - 1, 0, kRows - 2, kRows}, {96, 32, 64, 0});
  // With rows of one element, row numbers need more than 31 bits.
  constexpr std::int64_t kLast = (kRows - 1) * kWidth;
  expect_products(1, {kLast, kLast - 1, 0, kLast + kWidth}, {1.5F, 1.0F, 0.5F, 0.0F});
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
