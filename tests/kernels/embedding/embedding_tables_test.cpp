// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding/embedding_tables_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

namespace msstream::ops::kernels::testing {
namespace {

TYPED_TEST_SUITE(EmbeddingTablesTest, StreamKinds, StreamKindName);

TYPED_TEST(EmbeddingTablesTest, mixed_tables_of_any_hotness) {
  for (auto const output : {DType::float32, DType::float16, DType::bfloat16}) {
    for (std::int32_t const hotness : {0, 1, 2, 7, 8, 9, 50, 64, 65, 130}) {
      TablesLookup lookup{.tables = this->mixed_tables(hotness), .batch = 37, .output = output};
      this->fill(lookup);
      this->expect_pooled(lookup);
    }
  }
}

TYPED_TEST(EmbeddingTablesTest, each_table_has_its_own_hotness) {
  TablesLookup lookup{.tables = this->mixed_tables(0), .batch = 70};
  std::int32_t hotness = 0;
  for (auto& table : lookup.tables) {
    table.hotness = hotness++ % 4 == 0 ? 1 : hotness * 3;
  }
  this->fill(lookup);
  this->expect_pooled(lookup);
  lookup.has_32_bit_ids = true;
  this->expect_pooled(lookup);
}

TYPED_TEST(EmbeddingTablesTest, jagged_bags) {
  for (std::int64_t const longest : {0, 1, 3, 50, 150}) {
    TablesLookup lookup{.tables = this->mixed_tables(3), .batch = 33};
    this->fill_jagged(lookup, longest, 5);
    this->expect_pooled(lookup);
    lookup.has_32_bit_ids = true;
    this->expect_pooled(lookup);
  }
}

TYPED_TEST(EmbeddingTablesTest, weighted_bags) {
  for (bool const is_jagged : {false, true}) {
    for (std::int32_t const hotness : {1, 6, 70}) {
      TablesLookup lookup{.tables = this->mixed_tables(hotness), .batch = 20};
      for (auto& table : lookup.tables) {
        table.pooling = table.pooling == Pooling::max ? Pooling::mean : table.pooling;
      }
      is_jagged ? this->fill_jagged(lookup, hotness) : this->fill(lookup);
      lookup.weights = this->random.reals(static_cast<std::int64_t>(lookup.ids.size()), 0.1F, 2.0F);
      this->expect_pooled(lookup);
      std::fill(lookup.weights.begin(), lookup.weights.end(), 0.0F);  // a divisor of 0 gives 0
      this->expect_pooled(lookup);
    }
  }
}

TYPED_TEST(EmbeddingTablesTest, bags_beyond_the_count_are_zero) {
  for (std::int64_t const existing : {0, 1, 31, 32, 39, 40}) {
    for (std::int32_t const hotness : {1, 3}) {
      TablesLookup lookup{.tables = this->mixed_tables(hotness), .batch = 40, .existing = existing};
      this->fill(lookup);
      this->expect_pooled(lookup);
      lookup.ids.clear();
      this->fill_jagged(lookup, hotness);
      this->expect_pooled(lookup);
    }
  }
}

TYPED_TEST(EmbeddingTablesTest, places_of_maxima_in_tables_of_any_hotness) {
  for (auto const output : {DType::float32, DType::bfloat16}) {
    for (std::int32_t const hotness : {0, 1, 2, 7, 9, 65}) {
      TablesLookup lookup{.tables = this->mixed_tables(hotness),
                          .batch = 37,
                          .existing = 35,
                          .output = output,
                          .has_argmax = true};
      this->fill(lookup);
      this->expect_pooled(lookup);
    }
  }
  TablesLookup lookup{
      .tables = this->mixed_tables(1), .batch = 33, .has_32_bit_ids = true, .has_argmax = true};
  for (std::size_t t = 0; t < lookup.tables.size(); ++t) {
    lookup.tables[t].hotness = t % 2 == 0 ? 1 : static_cast<std::int32_t>(t);
    lookup.tables[t].pooling = t % 3 == 0 ? Pooling::sum : Pooling::max;
    lookup.tables[t].skew = static_cast<std::int64_t>(t % 2);
  }
  this->fill(lookup);
  this->expect_pooled(lookup);
}

TYPED_TEST(EmbeddingTablesTest, places_of_maxima_of_jagged_bags) {
  for (std::int64_t const longest : {0, 1, 3, 150}) {
    TablesLookup lookup{
        .tables = this->mixed_tables(3), .batch = 33, .existing = 31, .has_argmax = true};
    this->fill_jagged(lookup, longest, 5);
    this->expect_pooled(lookup);
    lookup.has_32_bit_ids = true;
    this->expect_pooled(lookup);
  }
}

// Elements are small integers and NaN, so that most columns of a bag have equal elements, and ids
// occur several times in a bag.
TYPED_TEST(EmbeddingTablesTest, the_first_of_equal_elements_and_of_nan_wins) {
  for (bool const is_jagged : {false, true}) {
    TablesLookup lookup{.tables = {}, .batch = 40, .has_argmax = true};
    for (std::int32_t const width : {1, 3, 4, 32, 33, 128}) {
      for (auto const dtype : {DType::float32, DType::float16, DType::bfloat16}) {
        lookup.tables.push_back({.rows = 6,
                                 .width = width,
                                 .dtype = dtype,
                                 .pooling = Pooling::max,
                                 .hotness = 5,
                                 .default_id = width == 32 ? 2 : -1});
      }
    }
    is_jagged ? this->fill_jagged(lookup, 9) : this->fill(lookup);
    for (auto& table : lookup.tables) {
      for (auto& element : table.elements) {
        auto const number = this->random.integer(-2, 2);
        element = number == -2 ? std::nanf("") : static_cast<float>(number);
      }
    }
    this->expect_pooled(lookup);
  }
}

TYPED_TEST(EmbeddingTablesTest, places_of_maxima_in_hundreds_of_tables) {
  TablesLookup lookup{.tables = {}, .batch = 35, .has_argmax = true};
  for (int t = 0; t < 200; ++t) {
    lookup.tables.push_back({.rows = 9 + t,
                             .width = 1 + t % 19,
                             .pooling = t % 3 == 0 ? Pooling::max : Pooling::mean,
                             .hotness = t % 4});
  }
  this->fill(lookup);
  this->expect_pooled(lookup);
}

// Table descriptors are launch arguments up to a certain number of tables; with more tables they
// are read from memory.
TYPED_TEST(EmbeddingTablesTest, one_table_and_hundreds) {
  for (int const tables : {1, 2, 31, 32, 33, 600}) {
    for (std::int32_t const hotness : {1, 2}) {
      for (bool const is_mixed : {false, true}) {
        TablesLookup lookup{.tables = {}, .batch = 35};
        for (int t = 0; t < tables; ++t) {
          Table table;
          table.rows = 9 + t;
          table.width = is_mixed ? 1 + t % 19 : 16;
          table.dtype = is_mixed && t % 2 == 1 ? DType::float16 : DType::float32;
          table.hotness = hotness;
          lookup.tables.push_back(table);
        }
        this->fill(lookup);
        this->expect_pooled(lookup);
      }
    }
  }
}

TYPED_TEST(EmbeddingTablesTest, batches_of_any_size) {
  for (std::int64_t const batch : {0, 1, 4, 5, 31, 32, 33, 300}) {
    for (std::int32_t const width : {4, 8, 64, 128, 256}) {
      TablesLookup lookup{.tables = std::vector<Table>(3, Table{.width = width}), .batch = batch};
      this->fill(lookup);
      this->expect_pooled(lookup);
    }
  }
}

TYPED_TEST(EmbeddingTablesTest, tables_that_lie_off_sixteen_bytes) {
  for (std::int32_t const hotness : {1, 4}) {
    TablesLookup lookup{.tables = this->mixed_tables(hotness), .batch = 30};
    for (auto& table : lookup.tables) {
      table.skew = 1;
    }
    this->fill(lookup);
    this->expect_pooled(lookup);
  }
}

TYPED_TEST(EmbeddingTablesTest, bad_ids_are_counted_once_and_trapped) {
  for (std::int32_t const hotness : {1, 5}) {
    TablesLookup lookup{.tables = this->mixed_tables(hotness), .batch = 45, .existing = 41};
    this->fill(lookup);
    std::int64_t bad = 0;
    std::size_t place = 0;
    for (auto const& table : lookup.tables) {
      for (std::int64_t k = 0; k < lookup.batch * hotness; ++k, ++place) {
        auto const id = lookup.ids[place];
        bad += k < *lookup.existing * hotness && (id < 0 || id >= table.rows) ? 1 : 0;
      }
    }
    auto const count = this->upload(std::vector<std::uint64_t>{7});
    auto const trap = this->pinned(IdTrap{});
    (void)this->look_up(lookup, {.count = count.data(), .trap = trap.data(), .operation = 3});
    EXPECT_EQ(this->read(count).front(), 7 + static_cast<std::uint64_t>(bad));
    EXPECT_EQ(trap.data()->set, bad > 0 ? 1U : 0U);
    EXPECT_EQ(trap.data()->operation, bad > 0 ? 3U : 0U);
    EXPECT_TRUE(bad == 0 || trap.data()->caught.id < 0 ||
                trap.data()->caught.id >= trap.data()->caught.rows);
  }
}

TYPED_TEST(EmbeddingTablesTest, ids_far_out_of_range) {
  TablesLookup lookup{.tables = this->mixed_tables(1), .batch = 4};
  this->fill(lookup);
  for (std::size_t i = 0; i < lookup.ids.size(); i += 4) {
    lookup.ids[i] = std::numeric_limits<std::int64_t>::min();
    lookup.ids[i + 1] = std::int64_t{1} << 31U;
    lookup.ids[i + 2] = std::numeric_limits<std::int64_t>::max();
  }
  this->expect_pooled(lookup);
}

TYPED_TEST(EmbeddingTablesTest, not_a_number_infinity_and_minus_zero) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  auto const nan = std::nanf("");
  for (std::int32_t const hotness : {1, 2}) {
    TablesLookup lookup{
        .tables = {{.rows = 4, .width = 4, .hotness = hotness},
                   {.rows = 4, .width = 4, .pooling = Pooling::max, .hotness = hotness}},
        .batch = 2};
    Floats const elements{nan,
                          kInfinity,
                          -0.0F,
                          1,  //
                          1,
                          -kInfinity,
                          -0.0F,
                          -2,  //
                          2,
                          2,
                          2,
                          2,
                          3,
                          3,
                          3,
                          3};
    for (auto& table : lookup.tables) {
      table.elements = elements;
    }
    lookup.ids = hotness == 1 ? Integers{0, 1, 0, 1} : Integers{0, 1, 1, 0, 1, 0, 0, 1};
    Floats const expected = hotness == 1 ? Floats{nan,
                                                  kInfinity,
                                                  0,
                                                  1,
                                                  nan,
                                                  kInfinity,
                                                  -0.0F,
                                                  1,  //
                                                  1,
                                                  -kInfinity,
                                                  0,
                                                  -2,
                                                  1,
                                                  -kInfinity,
                                                  -0.0F,
                                                  -2}
                                         : Floats{nan,
                                                  nan,
                                                  0,
                                                  -1,
                                                  nan,
                                                  kInfinity,
                                                  -0.0F,
                                                  1,  //
                                                  nan,
                                                  nan,
                                                  0,
                                                  -1,
                                                  nan,
                                                  kInfinity,
                                                  -0.0F,
                                                  1};
    auto const found = this->look_up(lookup);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(same(found[i], expected[i])) << i << ": " << found[i] << ", " << expected[i];
    }
  }
}

TYPED_TEST(EmbeddingTablesTest, refuses_what_is_no_real_number_or_no_id) {
  EXPECT_THROW((void)plan_tables({{}, {.dtype = DType::int32}}), std::invalid_argument);
  auto const plan = plan_tables({{.width = 4}});
  auto const refused = [&](DType output, DType ids) {
    for (auto const batch : {1, 0}) {
      EXPECT_THROW(embedding_tables_lookup(this->stream(),
                                           {.plan = &plan,
                                            .tables = nullptr,
                                            .table_of_tile = nullptr,
                                            .batch = batch,
                                            .ids = nullptr,
                                            .id_dtype = ids,
                                            .output_dtype = output}),
                   std::invalid_argument)
          << batch << " bags of " << name_of(ids) << ", " << name_of(output);
    }
  };
  refused(DType::int64, DType::int64);
  refused(DType::float32, DType::uint8);
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
