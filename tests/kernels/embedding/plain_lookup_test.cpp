// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding/embedding_fixture.hpp"

namespace msstream::ops::kernels::testing {
namespace {

/// A fixture for sums without weights of bags of equally many ids, for which CUDA has kernels of
/// their own.
template <class Stream>
class PlainLookupTest : public EmbeddingTest<Stream> {
 protected:
  /// Expects the bits of the host implementation, and that each bad id is counted once.
  void expect_twins(Lookup const& lookup) {
    auto const table = this->table_of(lookup);
    auto const bad_ids = this->upload(std::vector<std::uint64_t>{1000});
    auto const found = this->look_up(lookup, table, {bad_ids.data(), nullptr, 0});
    EXPECT_TRUE(are_same(found.output, this->host_twin(lookup, table).output))
        << lookup.bags << " bags of " << lookup.hotness << ", width " << lookup.width << ", table "
        << fmt::format("{}", lookup.table_dtype);
    EXPECT_EQ(this->read(bad_ids).front(),
              1000U + static_cast<std::uint64_t>(lookup.out_of_range()));
  }
};
TYPED_TEST_SUITE(PlainLookupTest, StreamKinds, StreamKindName);

TYPED_TEST(PlainLookupTest, all_hotness_with_and_without_bad_ids) {
  for (std::int64_t const hotness : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17}) {
    for (std::int64_t const lowest : {-1, 0}) {
      for (auto const table : {DType::float32, DType::float16, DType::bfloat16}) {
        auto lookup = fixed(this->random.integers(37 * hotness, lowest, 49), hotness);
        lookup.table_dtype = table;
        lookup.id_dtype = hotness % 2 == 0 ? DType::int32 : DType::int64;
        for (auto const output : {table, DType::float32}) {
          lookup.output_dtype = output;
          for (std::int64_t const width : {4, 16, 24, 96, 160, 512}) {
            lookup.width = width;
            this->expect_twins(lookup);
          }
        }
      }
    }
  }
}

// These lookups have so many bags that the kernel does not request 32 rows at a time. Bags of more
// than 64 ids are summed in parts of 64 rows, which are added in float64.
TYPED_TEST(PlainLookupTest, parts_of_long_bags) {
  for (std::int64_t const hotness : {64, 65, 128, 129, 200}) {
    for (auto const table : {DType::float32, DType::float16}) {
      auto lookup = fixed(this->random.integers(530 * hotness, -1, 49), hotness);
      lookup.table_dtype = table;
      lookup.output_dtype = table;
      lookup.id_dtype = hotness % 2 == 0 ? DType::int32 : DType::int64;
      lookup.width = 296;
      this->expect_twins(lookup);
    }
  }
}

// Bags so few and long that 32 rows of each are requested at a time, rows too wide for one block,
// bags too long for shared memory, and so many bags of one id that groups of lanes take several.
TYPED_TEST(PlainLookupTest, shapes_of_other_kernels) {
  struct Shape {
    std::int64_t bags;
    std::int64_t hotness;
    std::int64_t width;
  };
  for (auto const& shape : {Shape{3, 33, 32},
                            Shape{70, 200, 64},
                            Shape{5, 3, 1'024},
                            Shape{5, 3, 1'028},
                            Shape{40, 20, 2'052},
                            Shape{3, 13'000, 1'024},
                            Shape{24'600, 1, 128}}) {
    for (std::int64_t const lowest : {-1, 0}) {
      auto lookup =
          fixed(this->random.integers(shape.bags * shape.hotness, lowest, 49), shape.hotness);
      lookup.width = shape.width;
      this->expect_twins(lookup);
    }
  }
}

// The mean and the root mean of one row are the row; a row of -0 adds up to 0.
TYPED_TEST(PlainLookupTest, one_row_and_minus_zero) {
  for (auto const pooling : {Pooling::sum, Pooling::mean, Pooling::sqrtn}) {
    auto lookup = fixed(this->random.integers(100, -3, 52), 1);
    lookup.pooling = pooling;
    Floats const zeros(static_cast<std::size_t>(lookup.rows * lookup.width), -0.0F);
    for (auto const& table : {this->table_of(lookup), zeros}) {
      EXPECT_TRUE(
          are_same(this->look_up(lookup, table).output, this->host_twin(lookup, table).output));
    }
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
