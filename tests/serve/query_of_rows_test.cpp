// SPDX-License-Identifier: Apache-2.0
// Tests queries that are made of rows of named columns.
#include "base/message_of.hpp"
#include "serve/serve_fixture.hpp"

#include <msstream/data/data_error.hpp>
#include <msstream/data/text_reader.hpp>
#include <msstream/data/transforms.hpp>
#include <msstream/ops/gather.hpp>
#include <msstream/ops/jagged.hpp>
#include <msstream/serve/query_of_rows.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

namespace msstream::testing {
namespace {

using data::Transform;
using ::testing::HasSubstr;

data::Schema raw_features() {
  using enum data::ColumnType;
  return data::Schema({{.name = "history",
                        .type = hashed,
                        .width = data::kJagged,
                        .transforms = {Transform::hash({.buckets = 50})}},
                       {.name = "price", .transforms = {Transform::fill_missing(2)}},
                       {.name = "size", .width = 2},
                       {.name = "shop", .type = int64}});
}

/// Returns `rows` rows, of which row i has i items.
data::Chunk ready_rows(int rows) {
  data::Chunk raw(raw_features());
  for (int i = 0; i < rows; ++i) {
    for (int item = 0; item < i; ++item) {
      raw.add_text("history", "item-" + std::to_string(i * item));
    }
    raw.offsets("history").push_back(static_cast<std::int64_t>(raw.ints("history").size()));
    raw.floats("price").push_back(i % 2 == 0 ? std::numeric_limits<float>::quiet_NaN()
                                             : static_cast<float>(i));
    raw.floats("size").insert(raw.floats("size").end(), {0.5F * static_cast<float>(i), 3});
    raw.ints("shop").push_back(100 + i);
  }
  return data::Transforms(raw_features()).apply(std::move(raw));
}

/// A model that returns the sums of a row's items, sizes, shop and price; and the same function of
/// a chunk.
template <Runtime R>
struct RowSums {
  [[nodiscard]] Tensor<float, R> operator()(serve::Inputs<R> const& inputs) const {
    auto const rows = inputs.rows();
    Shape const column{rows, 1};
    auto const items = ops::gather_rows(
        numbers,
        ops::jagged_to_dense(inputs.ints("history"), inputs.offsets("history"), 4, std::int64_t{0})
            .reshaped({rows * 4}));
    EXPECT_EQ(inputs.floats("price").shape(), Shape{rows});
    EXPECT_EQ(inputs.floats("size").shape(), (Shape{rows, 2}));
    EXPECT_EQ(inputs.ints("shop").shape(), Shape{rows});
    return ops::concat<R>({ops::sum(items.reshaped({rows, 4}), 1).reshaped(column),
                           inputs.floats("price").reshaped(column),
                           inputs.floats("size"),
                           ops::gather_rows(numbers, inputs.ints("shop"))});
  }
  Tensor<float, R> numbers;  ///< [200, 1], row i is i
};

template <class R>
class ServeRowsTest : public RuntimeTest<R> {};
TYPED_TEST_SUITE(ServeRowsTest, Runtimes, RuntimeNames);

TYPED_TEST(ServeRowsTest, become_a_query_of_the_fields_by_their_names) {
  ServeWorld<TypeParam> const world;
  auto numbers = to_device(world.device,
                           [] {
                             Floats all(200);
                             std::iota(all.begin(), all.end(), 0.0F);
                             return all;
                           }(),
                           {200, 1});
  numbers.freeze();
  auto const model = std::make_shared<RowSums<TypeParam> const>(RowSums<TypeParam>{numbers});
  auto fields = serve::fields_of(raw_features(), 4);
  std::ranges::reverse(fields);
  serve::InferencePool pool(world.device, model, {.inputs = fields, .outputs_per_row = 5});
  auto const rows = ready_rows(4);
  auto const answer = pool.submit(serve::query_of(rows, fields)).get();
  Floats expected;
  for (std::size_t i = 0; i < 4; ++i) {
    float items = 0;
    for (auto at = rows.offsets("history")[i]; at < rows.offsets("history")[i + 1]; ++at) {
      items += static_cast<float>(rows.ints("history")[static_cast<std::size_t>(at)]);
    }
    auto const number = static_cast<float>(i);
    expected.insert(expected.end(),
                    {items, i % 2 == 0 ? 2.0F : number, 0.5F * number, 3, 100 + number});
  }
  EXPECT_EQ(answer.values, expected);
}

TEST(ServeRows, have_the_types_that_transforms_make) {
  using data::Transform;
  auto const fields = serve::fields_of(data::Schema(
      {{.name = "time", .type = data::ColumnType::int64, .transforms = {Transform::normalize()}},
       {.name = "shop", .type = data::ColumnType::int64, .transforms = {Transform::hash({5})}},
       {.name = "count", .type = data::ColumnType::int64}}));
  EXPECT_EQ(fields[0].dtype, DType::float32);
  EXPECT_EQ(fields[1].dtype, DType::int64);
  EXPECT_EQ(fields[2].dtype, DType::int64);
}

TEST(ServeRows, of_columns_that_a_reader_converts_are_refused) {
  using data::ColumnType;
  auto const fields_of = [](data::TextColumn column) {
    auto const path = ::testing::TempDir() + "converted_rows.csv";
    std::ofstream(path) << "age,country\n1,NO\n";
    return serve::fields_of(data::CsvReader(path, {.columns = {std::move(column)}}).schema());
  };
  auto const refusal = [&](data::TextColumn const& column) {
    return message_of<std::invalid_argument>([&] { static_cast<void>(fields_of(column)); });
  };
  EXPECT_THAT(refusal({.name = "country", .type = ColumnType::hashed, .buckets = 100}),
              AllOf(HasSubstr("'country'"), HasSubstr("`buckets`")));
  EXPECT_THAT(refusal({.name = "age", .if_empty = 40.0}), HasSubstr("`if_empty`"));
  EXPECT_THAT(refusal({.name = "age", .to_float = [](auto) { return 1.0F; }}),
              HasSubstr("`to_float`"));
  EXPECT_EQ(fields_of({.name = "age"}).size(), 1U);
  EXPECT_EQ(fields_of({.name = "country", .type = ColumnType::hashed}).size(), 1U);
}

TEST(ServeRows, that_do_not_fit_the_fields_are_refused_by_name) {
  auto const rows = ready_rows(2);
  auto const refusal = [&](data::Chunk const& chunk, serve::Field const& field) {
    return message_of<std::invalid_argument>(
        [&] { static_cast<void>(serve::query_of(chunk, {field})); });
  };
  using serve::field;
  EXPECT_EQ(serve::query_of(rows, {field<std::int64_t>("shop", 1)}).rows, 2);
  EXPECT_THAT(refusal(rows, field<float>("prize", 1)), HasSubstr("'prize'"));
  EXPECT_THAT(refusal(rows, field<std::int64_t>("price", 1)),
              HasSubstr("values of float32 in column 'price', for a field that has int64"));
  EXPECT_THAT(refusal(rows, field<float>("size", 3)),
              HasSubstr("2 values a row in column 'size', for a field that has 3"));
  EXPECT_THAT(
      refusal(rows, field<std::int64_t>("history", 3)),
      HasSubstr("lists in column 'history', for a field that has a number of values a row"));
  EXPECT_THAT(refusal(rows, serve::jagged_field<std::int64_t>("shop", 3)),
              HasSubstr("a number of values a row in column 'shop', for a field that has lists"));
  EXPECT_THAT(refusal(data::Chunk(raw_features()), field<float>("price", 1)),
              HasSubstr("raw values of column 'price', which states transforms"));
  EXPECT_THAT(message_of<std::invalid_argument>(
                  [&] { static_cast<void>(serve::fields_of(raw_features())); }),
              HasSubstr("room for 0 elements a row of the lists of column 'history'"));
  auto uneven = rows;
  uneven.ints("shop").push_back(1);
  EXPECT_THROW(static_cast<void>(serve::query_of(uneven, {field<std::int64_t>("shop", 1)})),
               data::DataError);
}

}  // namespace
}  // namespace msstream::testing
