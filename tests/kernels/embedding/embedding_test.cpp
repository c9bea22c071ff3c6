// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding/embedding_fixture.hpp"

namespace msstream::ops::kernels::testing {
namespace {

TYPED_TEST_SUITE(EmbeddingTest, StreamKinds, StreamKindName);

TYPED_TEST(EmbeddingTest, every_pooling_of_every_type_with_and_without_weights) {
  constexpr DType kReals[] = {DType::float32, DType::float16, DType::bfloat16};
  constexpr std::int64_t kSomeWidths[] = {1, 3, 4, 8, 12, 16, 33, 64, 128, 264};
  for (auto const pooling : this->kPoolings) {
    for (auto const table : kReals) {
      for (auto const output : kReals) {
        for (auto const ids : {DType::int32, DType::int64}) {
          for (bool const is_weighted : {false, true}) {
            for (auto lookup :
                 {fixed(this->random.integers(41 * 5, -2, 52), 5), this->random_bags(60, 12, 7)}) {
              lookup.pooling = pooling;
              lookup.table_dtype = table;
              lookup.output_dtype = output;
              lookup.id_dtype = ids;
              lookup.width = kSomeWidths[this->random.integer(0, std::size(kSomeWidths) - 1)];
              if (is_weighted && pooling != Pooling::max) {
                lookup.weights = this->random_weights(lookup);
              }
              this->expect_pooled(lookup);
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(EmbeddingTest, fixed_hotness) {
  for (std::int64_t const hotness : {1, 2, 5, 8, 9, 50}) {
    this->expect_pooled_everywhere(fixed(this->random.integers(21 * hotness, -2, 52), hotness));
  }
}

// The longest bags have more than twice as many ids as lanes read at once.
TYPED_TEST(EmbeddingTest, jagged_bags) {
  for (std::int64_t const longest : {1, 3, 20, 90}) {
    this->expect_pooled_everywhere(this->random_bags(50, longest, 7));
  }
}

// The bags are added in one part, in two and in several, with and without weights.
TYPED_TEST(EmbeddingTest, bags_of_several_parts) {
  for (std::int64_t const longest : {64, 130, 400}) {
    for (bool const is_weighted : {false, true}) {
      auto lookup = this->random_bags(40, longest, 3);
      if (is_weighted) {
        lookup.weights = this->random_weights(lookup);
      }
      for (std::int64_t const width : {3, 32, 128}) {
        lookup.width = width;
        for (auto const table : {DType::float32, DType::bfloat16}) {
          lookup.table_dtype = table;
          this->expect_pooled(lookup);
        }
      }
    }
  }
}

// All ids are in the table, so that no id is examined twice.
TYPED_TEST(EmbeddingTest, bags_of_good_ids) {
  for (std::int64_t const hotness : {1, 8, 16, 40, 64, 70}) {
    auto lookup = fixed(this->random.integers(37 * hotness, 0, 49), hotness);
    for (std::int64_t const width : {16, 32, 64, 128, 256}) {
      for (auto const table : {DType::float32, DType::bfloat16}) {
        lookup.width = width;
        lookup.table_dtype = table;
        this->expect_pooled(lookup);
      }
    }
  }
}

// There are so many bags that a group of lanes processes several of them, and the number of bags is
// no multiple of those of a group.
TYPED_TEST(EmbeddingTest, many_bags_of_one_id) {
  for (std::int64_t const width : {16, 128}) {
    auto const bags = this->many_on_gpu(std::int64_t{1} << 21) / width + 3;
    for (std::int64_t const lowest : {-2, 0}) {
      auto const ids = this->random.integers(bags, lowest, 49);
      Integers offsets;
      for (std::int64_t bag = 0; bag <= bags; ++bag) {
        offsets.push_back(bag);
      }
      for (auto lookup : {fixed(ids, 1), jagged(ids, offsets)}) {
        lookup.width = width;
        lookup.id_dtype = lowest < 0 ? DType::int64 : DType::int32;
        for (auto const pooling : {Pooling::mean, Pooling::max, Pooling::none}) {
          lookup.pooling = pooling;
          this->expect_pooled(lookup);
        }
        lookup.pooling = Pooling::mean;
        for (auto const existing : {std::int64_t{0}, std::int64_t{1}, bags - 5}) {
          lookup.existing = existing;
          this->expect_pooled(lookup);
        }
        lookup.weights = this->random_weights(lookup);
        lookup.pooling = Pooling::none;
        this->expect_pooled(lookup);
        lookup.pooling = Pooling::mean;
        lookup.default_id = 7;
        this->expect_pooled(lookup);
      }
    }
  }
}

// There are so many bags that a group of lanes processes several of them, of which some have no id
// and some have several.
TYPED_TEST(EmbeddingTest, many_short_bags) {
  auto lookup = this->random_bags(17'000, 2);
  lookup.width = 128;
  lookup.default_id = 3;
  this->expect_pooled(lookup);
  lookup.existing = 16'990;
  this->expect_pooled(lookup);
  lookup.weights = this->random_weights(lookup);
  this->expect_pooled(lookup);
  lookup.pooling = Pooling::none;
  lookup.offsets.front() = 100;  // the first 100 positions are in no bag
  std::replace_if(
      lookup.offsets.begin(), lookup.offsets.end(), [](auto x) { return x < 100; }, 100);
  this->expect_pooled(lookup);
}

// There are so many bags of a few ids each that a group of lanes processes a run of them, and the
// number of bags is no multiple of those of a run.
TYPED_TEST(EmbeddingTest, many_bags_of_a_few_ids) {
  for (std::int64_t const hotness : {2, 3, 7}) {
    for (auto const table : {DType::float32, DType::float16}) {
      for (std::int64_t const lowest : {-2, 0}) {
        auto const bags = this->many_on_gpu(50'000) + 1;
        auto lookup = fixed(this->random.integers(bags * hotness, lowest, 49), hotness);
        lookup.width = table == DType::float32 ? 96 : 192;
        lookup.table_dtype = table;
        lookup.pooling = Pooling::mean;
        lookup.default_id = 7;
        for (auto const existing : {std::int64_t{0}, bags - 11, bags}) {
          lookup.existing = existing;
          this->expect_pooled(lookup);
        }
      }
    }
  }
}

// Several groups of lanes share a bag, each with a slice of its columns, and the widest rows
// continue in further blocks. Bags are so few that lanes have many rows in flight.
TYPED_TEST(EmbeddingTest, rows_cut_into_slices) {
  for (std::int64_t const hotness : {1, 6, 40, 150}) {
    for (std::int64_t const lowest : {-1, 0}) {
      auto lookup = fixed(this->random.integers(29 * hotness, lowest, 49), hotness);
      for (std::int64_t const width : {20, 40, 96, 160, 192, 384, 512, 1'100}) {
        for (auto const table : {DType::float32, DType::float16}) {
          lookup.width = width;
          lookup.table_dtype = table;
          for (auto const existing : {std::int64_t{0}, std::int64_t{20}, lookup.bags}) {
            lookup.existing = existing;
            this->expect_pooled(lookup);
          }
        }
      }
    }
  }
}

TYPED_TEST(EmbeddingTest, empty_bags_first_middle_last_and_all) {
  auto const ids = this->random.integers(9, 0, 49);
  for (std::int64_t const default_id : {-1, 11}) {
    for (auto lookup : {jagged(ids, {0, 0, 0, 4, 4, 4, 5, 9, 9}),
                        jagged(ids, {0, 0, 0, 0}),
                        jagged({}, {0, 0, 0}),
                        jagged(ids, {0}),
                        fixed({}, 3)}) {
      lookup.default_id = default_id;
      this->expect_pooled_everywhere(lookup);
    }
    auto nothing = fixed({}, 1);
    nothing.bags = nothing.existing = 5;
    nothing.hotness = 0;
    nothing.default_id = default_id;
    this->expect_pooled_everywhere(nothing);
  }
}

TYPED_TEST(EmbeddingTest, rows_beyond_the_bag_count_are_zero) {
  for (std::int64_t const existing : {0, 1, 29}) {
    for (std::int64_t const hotness : {0, 1, 3}) {
      auto lookup = hotness > 0 ? fixed(this->random.integers(30 * hotness, -2, 52), hotness)
                                : this->random_bags(30, 6);
      lookup.existing = existing;
      lookup.default_id = hotness - 1;
      this->expect_pooled_everywhere(lookup);
    }
  }
}

TYPED_TEST(EmbeddingTest, one_id_a_hundred_thousand_times) {
  for (auto const table : {DType::float32, DType::float16}) {
    for (auto const pooling : {Pooling::sum, Pooling::mean}) {
      auto lookup = fixed(Integers(200'000, 7), 100'000);
      lookup.table_dtype = table;
      lookup.pooling = pooling;
      this->expect_pooled(lookup);
    }
  }
}

// A view into a larger array need not begin at an address that allows 16-byte loads.
TYPED_TEST(EmbeddingTest, tables_and_outputs_at_odd_addresses) {
  for (auto const dtype : {DType::float32, DType::float16}) {
    auto lookup = fixed(this->random.integers(64, 0, 49), 4);
    lookup.table_dtype = lookup.output_dtype = dtype;
    auto const table = this->table_of(lookup);
    auto const expected = this->host_twin(lookup, table).output;
    auto shifted = table;
    shifted.insert(shifted.begin(), 0.0F);
    auto const rows = this->upload(packed(shifted, dtype));
    auto const ids = this->upload(lookup.ids);
    auto const bytes = bytes_of(dtype);
    auto const count = lookup.bags * lookup.width;
    for (std::size_t const table_shift : {0, 1}) {
      for (std::size_t const output_shift : {0, 1}) {
        auto const output =
            this->template poisoned<std::byte>((count + 1) * static_cast<std::int64_t>(bytes));
        auto const aligned_rows = this->upload(packed(table, dtype));
        this->replay([&](TypeParam stream) {
          embedding_lookup(stream,
                           {.table = table_shift == 1 ? rows.data() + bytes : aligned_rows.data(),
                            .table_dtype = dtype,
                            .rows = lookup.rows,
                            .width = lookup.width,
                            .bags = {.ids = ids.data(), .bags = 16, .capacity = 64, .hotness = 4},
                            .pooling = lookup.pooling,
                            .report = {},
                            .output = output.data() + output_shift * bytes,
                            .output_dtype = dtype});
        });
        auto found = unpacked(this->read(output), dtype);
        auto const beside = found.begin() + (output_shift == 1 ? 0 : count);
        EXPECT_TRUE(std::isnan(*beside));
        found.erase(beside);
        EXPECT_TRUE(are_same(found, expected));
      }
    }
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
