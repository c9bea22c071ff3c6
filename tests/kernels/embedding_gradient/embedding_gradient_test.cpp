// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding_gradient/gradient_case.hpp"

#include <fmt/core.h>

#include <limits>
#include <stdexcept>

namespace msstream::ops::kernels::testing {
namespace {

constexpr std::int64_t kGradientWidths[] = {1, 3, 4, 16, 33, 128, 1024};

template <class Stream>
class EmbeddingGradientTest : public GradientTest<Stream> {
 protected:
  template <class Id>
  std::vector<float> gradients_of(UploadedCase<Id> const& uploaded) {
    auto args = uploaded.args();
    auto const output = this->floats(uploaded.some.places() * uploaded.some.width);
    auto const memory = this->workspace(
        row_gradient_workspace_bytes(this->stream(), args.bags, args.pooling, args.width));
    args.row_gradients = output.data();
    args.workspace = memory.data();
    this->replay([&](Stream stream) { embedding_row_gradients(stream, args); });
    return this->read(output);
  }

  /// Compares row gradients with sums in double. Memory that must not be written has to stay
  /// poisoned.
  template <class T = float, class Id = std::int64_t>
  void expect_gradients(GradientCase const& some, std::int64_t offset = 0) {
    SCOPED_TRACE(
        fmt::format("pooling {}, width {}, {} ids, {} of {} bags, {} weights, default id {}",
                    static_cast<int>(some.pooling),
                    some.width,
                    some.ids.size(),
                    some.existing,
                    some.bags,
                    some.weights.size(),
                    some.default_id));
    auto const gradient = this->template random_gradient<T>(some);
    auto const argmax = this->random_argmax(some);
    auto const uploaded = this->template upload_case<Id>(some, gradient, argmax, offset);
    auto const found = gradients_of(uploaded);
    ReferenceGradients const expected(some, gradient, argmax);
    auto const uniques = static_cast<std::int64_t>(expected.sums.size());
    EXPECT_TRUE(std::all_of(found.begin() + uniques * some.width, found.end(), [](float x) {
      return std::isnan(x);
    })) << "rows beyond the unique ids were touched";
    std::int64_t u = 0;
    for (auto const& [id, sums] : expected.sums) {
      for (std::size_t c = 0; c < sums.size(); ++c) {
        // The error of each addition is at most half a unit in the last place, as is that of each
        // operation of the factor, of which there is one for each weight of the bag.
        auto const roundings = expected.addends.at(id) + 40.0;
        ASSERT_NEAR(found[static_cast<std::size_t>(u * some.width) + c],
                    sums[c],
                    roundings * expected.magnitudes.at(id)[c] * 0x1p-24)
            << "id " << id << " column " << c;
      }
      ++u;
    }
  }

  /// Calls visit(case) for fixed and jagged bags, for fewer positions than one launch handles and
  /// for more; all or half of the bags exist.
  template <class Visit>
  void for_each_shape(Visit const& visit) {
    for (std::int64_t const bags : {60, 1500}) {
      for (auto some : {GradientCase::fixed(this->random.integers(bags, -2, 52), 1),
                        GradientCase::fixed(this->random.integers(bags * 4, -20, 52), 4),
                        this->random_bags(bags, 6, 9)}) {
        visit(some);
        some.existing = bags / 2;
        visit(some);
      }
    }
  }
};
TYPED_TEST_SUITE(EmbeddingGradientTest, StreamKinds, StreamKindName);

TYPED_TEST(EmbeddingGradientTest, all_poolings_of_fixed_and_jagged_bags) {
  for (auto const pooling : kPoolings) {
    for (auto const width : {1, 4, 33}) {
      this->for_each_shape([&](GradientCase some) {
        some.pooling = pooling;
        some.width = width;
        this->expect_gradients(some);
        this->template expect_gradients<float, std::int32_t>(some);
      });
    }
  }
}

TYPED_TEST(EmbeddingGradientTest, rows_of_any_width) {
  for (auto const width : kGradientWidths) {
    for (auto const pooling : {Pooling::sum, Pooling::mean, Pooling::max}) {
      for (std::int64_t const places : {200, 4000}) {
        auto some = GradientCase::fixed(this->random.integers(places, -2, 52), 2);
        some.width = width;
        some.pooling = pooling;
        this->expect_gradients(some);
      }
    }
  }
}

// The output gradients are so large that their columns may be processed in more than one pass; rows
// take up to a warp or more.
TYPED_TEST(EmbeddingGradientTest, many_bags_of_wide_rows) {
  for (std::int64_t const width : {72, 128, 256, 1024}) {
    auto const bags = (std::int64_t{32} << 20U) / (width * 4);
    auto some = GradientCase::fixed(this->random.integers(bags, -2, 9'999), 1);
    some.rows = 10'000;
    some.width = width;
    this->expect_gradients(some);
  }
}

TYPED_TEST(EmbeddingGradientTest, weights_and_default_ids) {
  for (auto const pooling : kPoolings) {
    this->for_each_shape([&](GradientCase some) {
      some.pooling = pooling;
      if (pooling != Pooling::max) {
        some.weights = this->random.reals(some.capacity(), 0.1F, 2.0F);
        this->expect_gradients(some);
      }
      if (pooling != Pooling::none) {
        some.default_id = 7;
        this->expect_gradients(some);
        some.weights.clear();
        this->template expect_gradients<float, std::int32_t>(some);
      }
    });
  }
}

TYPED_TEST(EmbeddingGradientTest, half_precision_gradients_are_added_in_float) {
  for (auto const pooling : {Pooling::sum, Pooling::mean, Pooling::max}) {
    for (std::int64_t const width : {1, 3, 4, 12, 16, 33, 128}) {
      for (std::int64_t const bags : {100, 1200}) {
        auto some = GradientCase::fixed(this->random.integers(bags * 3, -2, 52), 3);
        some.pooling = pooling;
        some.width = width;
        this->template expect_gradients<float16>(some);
        this->template expect_gradients<bfloat16, std::int32_t>(some);
      }
    }
  }
}

TYPED_TEST(EmbeddingGradientTest, output_gradients_at_odd_addresses) {
  for (std::int64_t const bags : {100, 3000}) {
    auto some = GradientCase::fixed(this->random.integers(bags, -2, 52), 1);
    this->expect_gradients(some, 1);
    this->template expect_gradients<float16>(some, 1);
  }
}

TYPED_TEST(EmbeddingGradientTest, a_hot_row_among_others) {
  for (std::int64_t const places : {2000, 30'000, 300'000}) {
    for (std::int64_t const width : {3, 16, 64}) {
      auto ids = this->random.integers(places, 0, 9'999);
      std::fill(ids.begin() + places / 20, ids.end() - places / 20, 4711);
      auto some = GradientCase::fixed(ids, 2);
      some.rows = 10'000;
      some.width = width;
      some.pooling = Pooling::mean;
      this->expect_gradients(some);
    }
  }
}

// Rows begin and end at the borders of parts and of blocks of parts, and next to them.
TYPED_TEST(EmbeddingGradientTest, rows_that_end_at_borders_of_what_is_added_together) {
  for (std::int64_t const width : {4, 128}) {
    for (std::int64_t const around : {16, 128, 256, 1024, 2048, 4096}) {
      for (std::int64_t const off : {-1, 0, 1}) {
        Integers ids;
        for (std::int64_t id = 0; ids.size() < 20'000; ++id) {
          ids.insert(ids.end(), static_cast<std::size_t>(around + (id == 1 ? off : 0)), id);
        }
        auto some = GradientCase::fixed(ids, 1);
        some.rows = 20'000;
        some.width = width;
        this->expect_gradients(some);
      }
    }
  }
}

// Half-precision values near 100,000 are more than 1 apart, so that only sums in float are exact.
TYPED_TEST(EmbeddingGradientTest, one_id_100000_times_in_half_precision) {
  auto some = GradientCase::fixed(Integers(100'000, 7), 1);
  some.width = 4;
  auto const gradient = std::vector<float16>(400'000, from_float<float16>(1.0F));
  auto const found =
      this->gradients_of(this->template upload_case<std::int64_t>(some, gradient, {}));
  EXPECT_EQ(std::vector<float>(found.begin(), found.begin() + 4),
            std::vector<float>(4, 100'000.0F));
}

TYPED_TEST(EmbeddingGradientTest, no_bags_no_ids_and_no_valid_ids) {
  for (auto const pooling : kPoolings) {
    for (std::int64_t const places : {0, 10, 5000}) {
      auto some = GradientCase::fixed(Integers(static_cast<std::size_t>(places), -1), 1);
      some.pooling = pooling;
      this->expect_gradients(some);
      if (pooling != Pooling::none) {
        some.default_id = 3;
        this->expect_gradients(some);
      }
    }
    auto empty = GradientCase::jagged({}, {0, 0, 0});
    empty.pooling = pooling;
    this->expect_gradients(empty);
    this->expect_gradients(GradientCase::jagged(this->random.integers(9, 0, 49), {0}));
  }
}

// If the weights of a bag add up to 0, the lookup gives 0 whatever its rows are, so
// its gradient is 0.
TYPED_TEST(EmbeddingGradientTest, a_bag_whose_divisor_is_zero_adds_nothing_not_even_infinity) {
  for (std::int64_t const bags : {10, 3000}) {
    for (auto const pooling : {Pooling::mean, Pooling::sqrtn}) {
      Integers ids(static_cast<std::size_t>(2 * bags), 1);
      ids[0] = ids[1] = 2;
      auto some = GradientCase::fixed(ids, 2);
      some.width = 4;
      some.pooling = pooling;
      some.weights.assign(ids.size(), 1.0F);
      some.weights[0] = pooling == Pooling::mean ? 1.0F : 0.0F;
      some.weights[1] = pooling == Pooling::mean ? -1.0F : 0.0F;
      std::vector<float> gradient(static_cast<std::size_t>(4 * bags), 0.0F);
      gradient[0] = std::numeric_limits<float>::infinity();
      gradient[1] = std::nanf("");
      auto const found =
          this->gradients_of(this->template upload_case<std::int64_t>(some, gradient, {}));
      for (std::size_t c = 0; c < 8; ++c) {
        EXPECT_EQ(found[c], 0.0F) << "element " << c;
      }
    }
  }
}

TYPED_TEST(EmbeddingGradientTest, nan_and_infinity_reach_the_rows_of_their_bag_alone) {
  for (std::int64_t const bags : {30, 3000}) {
    auto ids = Integers(static_cast<std::size_t>(bags), 5);
    ids[3] = 8;
    ids[4] = 9;
    auto some = GradientCase::fixed(ids, 1);
    some.width = 4;
    std::vector<float> gradient(static_cast<std::size_t>(4 * bags), 1.0F);
    gradient[3 * 4] = std::nanf("");
    gradient[4 * 4 + 1] = -std::numeric_limits<float>::infinity();
    auto const found =
        this->gradients_of(this->template upload_case<std::int64_t>(some, gradient, {}));
    EXPECT_EQ(found[0], static_cast<float>(bags - 2));
    EXPECT_TRUE(std::isnan(found[4]));
    EXPECT_EQ(found[5], 1.0F);
    EXPECT_EQ(found[9], -std::numeric_limits<float>::infinity());
    EXPECT_EQ(found[8], 1.0F);
  }
}

TYPED_TEST(EmbeddingGradientTest, twenty_runs_give_the_same_bits) {
  for (auto const pooling : {Pooling::sum, Pooling::sqrtn}) {
    auto ids = this->random.integers(60'000, 0, 999);
    std::fill(ids.begin() + 1000, ids.begin() + 20'000, 4);
    auto some = GradientCase::fixed(ids, 3);
    some.rows = 1000;
    some.pooling = pooling;
    some.weights = this->random.reals(some.capacity());
    auto const uploaded = this->template upload_case<std::int64_t>(
        some, this->template random_gradient<float>(some), {});
    auto const first = this->gradients_of(uploaded);
    auto const touched = Groups(some).uniques * some.width;
    for (int run = 1; run < 20; ++run) {
      auto const again = this->gradients_of(uploaded);
      ASSERT_TRUE(std::equal(first.begin(), first.begin() + touched, again.begin()));
    }
  }
}

TYPED_TEST(EmbeddingGradientTest, refuses_types_that_there_are_not) {
  RowGradientArgs args{};
  args.bags.bags = args.bags.capacity = args.width = 1;
  args.bags.default_id = -1;
  args.bags.hotness = 1;
  args.gradient_dtype = DType::int32;
  EXPECT_THROW(embedding_row_gradients(this->stream(), args), std::invalid_argument);
}

TYPED_TEST(EmbeddingGradientTest,
           the_gradient_of_a_weight_is_the_product_of_its_row_and_its_output_row) {
  auto const check = [&]<class T>(T, GradientCase const& some) {
    std::vector<T> table;
    for (auto const value : this->random.reals(some.rows * some.width)) {
      table.push_back(from_float<T>(value));
    }
    auto const gradient = this->template random_gradient<float>(some);
    auto const uploaded = this->template upload_case<std::int64_t>(some, gradient, {});
    auto const rows = this->upload(table);
    auto const output = this->floats(some.capacity());
    WeightGradientArgs args{
        .table = rows.data(),
        .table_dtype = dtype_of<T>,
        .rows = some.rows,
        .width = some.width,
        .bags = uploaded.args().bags,
        .pooling = some.pooling,
        .output_gradient = reinterpret_cast<float const*>(uploaded.output_gradient.data()),
        .weight_gradient = output.data()};
    this->replay([&](TypeParam stream) { embedding_weight_gradient(stream, args); });
    std::vector<double> expected(some.ids.size(), 0.0);
    some.for_each_place([&](std::int64_t id, std::int64_t place, std::int64_t row, double) {
      for (std::int64_t c = 0; c < some.width; ++c) {
        expected[static_cast<std::size_t>(place)] +=
            static_cast<double>(to_float(table[static_cast<std::size_t>(id * some.width + c)])) *
            gradient[static_cast<std::size_t>(row * some.width + c)];
      }
    });
    auto const found = this->read(output);
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], 1e-6 * (1.0 + static_cast<double>(some.width)))
          << "place " << i;
    }
  };
  for (auto const pooling : {Pooling::sum, Pooling::none}) {
    for (std::int64_t const width : {1, 3, 4, 16, 33, 128, 1024}) {
      this->for_each_shape([&](GradientCase some) {
        some.pooling = pooling;
        some.width = width;
        check(float{}, some);
        check(float16{}, some);
        check(bfloat16{}, some);
      });
    }
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
