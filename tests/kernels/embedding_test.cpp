// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_fixture.hpp"

#include <msstream/ops/kernels/embedding.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace msstream::ops::kernels::testing {
namespace {

using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<std::int32_t>;

/// One lookup as the caller sees it: bags of ids, of which the first `existing` are looked at.
struct Lookup {
  Integers ids;
  Integers offsets;          ///< empty: fixed hotness
  std::int64_t hotness = 1;  ///< with fixed hotness
  std::int64_t bags = 0;
  std::int64_t existing = 0;
  std::int64_t rows = 50;
  std::int64_t width = 16;
  Pooling pooling = Pooling::sum;

  [[nodiscard]] std::int64_t begin(std::int64_t bag) const {
    return offsets.empty() ? bag * hotness : offsets[static_cast<std::size_t>(bag)];
  }
  [[nodiscard]] std::int64_t end(std::int64_t bag) const { return begin(bag + 1); }
  [[nodiscard]] std::int64_t bag_of(std::int64_t place) const {
    return offsets.empty()
               ? place / hotness
               : std::upper_bound(offsets.begin(), offsets.end(), place) - offsets.begin() - 1;
  }
  [[nodiscard]] bool has(std::int64_t place) const {
    auto const id = ids[static_cast<std::size_t>(place)];
    return id >= 0 && id < rows;
  }
  [[nodiscard]] std::int64_t valid(std::int64_t bag) const {
    std::int64_t count = 0;
    for (auto place = begin(bag); place < end(bag); ++place) {
      count += has(place) ? 1 : 0;
    }
    return count;
  }
  [[nodiscard]] std::int64_t out_of_range() const {
    std::int64_t count = 0;
    for (std::int64_t bag = 0; bag < existing; ++bag) {
      count += end(bag) - begin(bag) - valid(bag);
    }
    return count;
  }
  [[nodiscard]] BagLayout layout(std::int64_t const* device_offsets,
                                 std::int64_t const* bag_count) const {
    return {bags, static_cast<std::int64_t>(ids.size()), hotness, device_offsets, bag_count};
  }
};

Lookup fixed(Integers ids, std::int64_t hotness) {
  Lookup lookup;
  lookup.bags = lookup.existing = static_cast<std::int64_t>(ids.size()) / hotness;
  lookup.ids = std::move(ids);
  lookup.hotness = hotness;
  return lookup;
}

Lookup jagged(Integers ids, Integers offsets) {
  Lookup lookup;
  lookup.bags = lookup.existing = static_cast<std::int64_t>(offsets.size()) - 1;
  lookup.ids = std::move(ids);
  lookup.offsets = std::move(offsets);
  lookup.hotness = 0;
  return lookup;
}

template <class Stream>
class EmbeddingTest : public KernelTest<Stream> {
 protected:
  template <class T>
  std::vector<T> table_of(Lookup const& lookup) {
    std::vector<T> table;
    for (auto const value : this->random.reals(lookup.rows * lookup.width)) {
      table.push_back(from_float<T>(value));
    }
    return table;
  }

  /// Jagged bags of 0 to `longest` ids; one in ten of the ids is no row, `spare` places are unused.
  Lookup random_bags(std::int64_t bags, std::int64_t longest, std::int64_t spare = 0) {
    Integers offsets{0};
    for (auto const length : this->random.integers(bags, 0, longest)) {
      offsets.push_back(offsets.back() + length);
    }
    auto const capacity = offsets.back() + spare;
    return jagged(this->random.integers(capacity, -2, 52), std::move(offsets));
  }

  template <class T>
  std::vector<float> look_up(Lookup const& lookup,
                             std::vector<T> const& table,
                             IdReport const& report = {}) {
    auto const rows = this->upload(table);
    auto const ids = this->upload(lookup.ids);
    auto const offsets = this->upload(lookup.offsets);
    auto const bag_count = this->scalar(lookup.existing);
    auto const output = this->floats(lookup.bags * lookup.width);
    this->replay([&](Stream stream) {
      embedding_lookup(stream,
                       {rows.data(),
                        dtype_of<T>,
                        lookup.rows,
                        lookup.width,
                        ids.data(),
                        lookup.layout(lookup.offsets.empty() ? nullptr : offsets.data(),
                                      lookup.existing < lookup.bags ? bag_count.data() : nullptr),
                        lookup.pooling,
                        report,
                        output.data()});
    });
    return this->read(output);
  }

  /// What the host twin gives for the same arguments.
  template <class T>
  std::vector<float> host_twin(Lookup const& lookup, std::vector<T> const& table) {
    std::vector<float> output(static_cast<std::size_t>(lookup.bags * lookup.width), std::nanf(""));
    Machine<HostStream> host;
    embedding_lookup(
        host.stream(),
        {table.data(),
         dtype_of<T>,
         lookup.rows,
         lookup.width,
         lookup.ids.data(),
         lookup.layout(lookup.offsets.empty() ? nullptr : lookup.offsets.data(), &lookup.existing),
         lookup.pooling,
         {},
         output.data()});
    host.synchronise();
    return output;
  }

  template <class T = float>
  void expect_pooled(Lookup const& lookup) {
    auto const table = table_of<T>(lookup);
    auto const found = look_up(lookup, table);
    for (std::int64_t bag = 0; bag < lookup.bags; ++bag) {
      bool const exists = bag < lookup.existing;
      for (std::int64_t c = 0; c < lookup.width; ++c) {
        double sum = 0.0;
        double magnitude = 0.0;
        double valid = 0.0;
        for (auto place = lookup.begin(bag); exists && place < lookup.end(bag); ++place) {
          if (lookup.has(place)) {
            auto const id = lookup.ids[static_cast<std::size_t>(place)];
            double const value = to_float(table[static_cast<std::size_t>(id * lookup.width + c)]);
            sum += value;
            magnitude += std::abs(value);
            valid += 1.0;
          }
        }
        double const divisor = lookup.pooling == Pooling::mean && valid > 0.0 ? valid : 1.0;
        // Each addition and the division err by at most half a unit in the last place.
        ASSERT_NEAR(found[static_cast<std::size_t>(bag * lookup.width + c)],
                    sum / divisor,
                    (valid + 1.0) * magnitude / divisor * 0x1p-24)
            << "bag " << bag << " column " << c << " width " << lookup.width;
      }
    }
    EXPECT_TRUE(found == host_twin(lookup, table)) << "the twins differ, width " << lookup.width;
  }

  void expect_pooled_everywhere(Lookup lookup) {
    for (auto const pooling : {Pooling::sum, Pooling::mean}) {
      lookup.pooling = pooling;
      for (auto const width : kWidths) {
        lookup.width = width;
        expect_pooled(lookup);
      }
    }
  }

  void expect_row_gradients(Lookup const& lookup) {
    std::map<std::int64_t, Integers> groups;
    for (auto place = lookup.begin(0); place < lookup.begin(lookup.existing); ++place) {
      if (lookup.has(place)) {
        groups[lookup.ids[static_cast<std::size_t>(place)]].push_back(place);
      }
    }
    Numbers starts{0};
    Numbers positions;
    Numbers ranks;
    for (auto const& [id, places] : groups) {
      ranks.insert(ranks.end(), places.size(), static_cast<std::int32_t>(starts.size()) - 1);
      positions.insert(positions.end(), places.begin(), places.end());
      starts.push_back(static_cast<std::int32_t>(positions.size()));
    }
    auto const uniques = static_cast<std::int64_t>(groups.size());
    auto const capacity = static_cast<std::int64_t>(lookup.ids.size());
    positions.resize(lookup.ids.size(), -1);
    ranks.resize(lookup.ids.size(), -1);
    starts.resize(lookup.ids.size() + 1, -1);
    auto const gradients = this->random.reals(lookup.bags * lookup.width);

    auto const ids = this->upload(lookup.ids);
    auto const offsets = this->upload(lookup.offsets);
    auto const bag_count = this->scalar(lookup.existing);
    auto const device_starts = this->upload(starts);
    auto const device_positions = this->upload(positions);
    auto const device_ranks = this->upload(ranks);
    auto const unique_count = this->scalar(uniques);
    auto const output_gradient = this->upload(gradients);
    auto const layout =
        lookup.layout(lookup.offsets.empty() ? nullptr : offsets.data(), bag_count.data());
    auto const memory =
        this->workspace(row_gradient_workspace_bytes(this->stream(), layout, lookup.width));
    auto const run = [&] {
      auto const output = this->floats(capacity * lookup.width);
      this->replay([&](Stream stream) {
        embedding_row_gradients(stream,
                                {ids.data(),
                                 layout,
                                 lookup.rows,
                                 lookup.pooling,
                                 device_starts.data(),
                                 device_positions.data(),
                                 device_ranks.data(),
                                 unique_count.data(),
                                 output_gradient.data(),
                                 lookup.width,
                                 output.data(),
                                 memory.data()});
      });
      return this->read(output);
    };
    auto const found = run();
    auto const again = run();
    auto const touched = uniques * lookup.width;
    EXPECT_TRUE(std::equal(found.begin(), found.begin() + touched, again.begin()))
        << "two runs differ";
    EXPECT_TRUE(std::all_of(found.begin() + touched, found.end(), [](float x) {
      return std::isnan(x);
    })) << "rows beyond the unique ids were touched";

    for (std::int64_t u = 0; u < uniques; ++u) {
      for (std::int64_t c = 0; c < lookup.width; ++c) {
        double sum = 0.0;
        double magnitude = 0.0;
        auto const first = starts[static_cast<std::size_t>(u)];
        auto const last = starts[static_cast<std::size_t>(u) + 1];
        for (auto k = first; k < last; ++k) {
          auto const bag = lookup.bag_of(positions[static_cast<std::size_t>(k)]);
          double const scale =
              lookup.pooling == Pooling::mean ? 1.0 / static_cast<double>(lookup.valid(bag)) : 1.0;
          double const gradient =
              scale * gradients[static_cast<std::size_t>(bag * lookup.width + c)];
          sum += gradient;
          magnitude += std::abs(gradient);
        }
        auto const roundings = static_cast<double>(last - first) + 2.0;
        ASSERT_NEAR(found[static_cast<std::size_t>(u * lookup.width + c)],
                    sum,
                    roundings * magnitude * 0x1p-24)
            << "unique id " << u << " column " << c << " width " << lookup.width;
      }
    }
  }
};
TYPED_TEST_SUITE(EmbeddingTest, StreamKinds, StreamKindName);

TYPED_TEST(EmbeddingTest, FixedHotness) {
  for (std::int64_t const hotness : {1, 2, 4, 5, 8, 9, 50}) {
    this->expect_pooled_everywhere(fixed(this->random.integers(77 * hotness, -2, 52), hotness));
  }
}

TYPED_TEST(EmbeddingTest, JaggedBags) {
  for (std::int64_t const longest : {1, 3, 20}) {
    this->expect_pooled_everywhere(this->random_bags(300, longest, 7));
  }
}

// So many bags that a group of lanes gathers several of them; their number is no multiple of it.
TYPED_TEST(EmbeddingTest, ManyBagsOfOneId) {
  auto lookup = fixed(this->random.integers(131'075, -2, 52), 1);
  this->expect_pooled(lookup);
  lookup.existing = 131'070;
  lookup.pooling = Pooling::mean;
  this->expect_pooled(lookup);
}

TYPED_TEST(EmbeddingTest, EmptyBagsFirstMiddleLastAndAll) {
  auto const ids = this->random.integers(9, 0, 49);
  this->expect_pooled_everywhere(jagged(ids, {0, 0, 0, 4, 4, 4, 5, 9, 9}));
  this->expect_pooled_everywhere(jagged(ids, {0, 0, 0, 0}));
  this->expect_pooled_everywhere(jagged({}, {0, 0, 0}));
  this->expect_pooled_everywhere(jagged(ids, {0}));
  this->expect_pooled_everywhere(fixed({}, 3));
}

TYPED_TEST(EmbeddingTest, RowsBeyondTheBagCountAreZero) {
  for (std::int64_t const existing : {0, 1, 29}) {
    auto lookup = this->random_bags(30, 6);
    lookup.existing = existing;
    this->expect_pooled_everywhere(lookup);
    for (std::int64_t const hotness : {1, 3}) {
      lookup = fixed(this->random.integers(30 * hotness, -2, 52), hotness);
      lookup.existing = existing;
      this->expect_pooled_everywhere(lookup);
    }
  }
}

TYPED_TEST(EmbeddingTest, OneIdThousandsOfTimes) {
  auto lookup = fixed(Integers(20'000, 7), 5000);
  this->expect_pooled(lookup);
  lookup.pooling = Pooling::mean;
  this->expect_pooled(lookup);
}

TYPED_TEST(EmbeddingTest, HalfPrecisionTablesAreAddedInFloat) {
  for (std::int64_t const width : {1, 3, 4, 12, 16, 33, 128, 264}) {
    for (std::int64_t const hotness : {1, 3, 12}) {
      auto lookup = fixed(this->random.integers(40 * hotness, -2, 52), hotness);
      lookup.width = width;
      lookup.pooling = hotness == 3 ? Pooling::mean : Pooling::sum;
      this->template expect_pooled<float16>(lookup);
      this->template expect_pooled<bfloat16>(lookup);
    }
  }
}

// A view into a larger array need not begin where 16-byte loads may.
TYPED_TEST(EmbeddingTest, TablesAndOutputsAtOddAddresses) {
  auto const lookup = fixed(this->random.integers(64, 0, 49), 4);
  auto const table = this->template table_of<float>(lookup);
  std::vector<float> shifted{0.0F};
  shifted.insert(shifted.end(), table.begin(), table.end());
  auto const rows = this->upload(shifted);
  auto const ids = this->upload(lookup.ids);
  auto const count = lookup.bags * lookup.width;
  auto const output = this->floats(count + 1);
  this->replay([&](TypeParam stream) {
    embedding_lookup(stream,
                     {rows.data() + 1,
                      DType::float32,
                      lookup.rows,
                      lookup.width,
                      ids.data(),
                      lookup.layout(nullptr, nullptr),
                      lookup.pooling,
                      {},
                      output.data() + 1});
  });
  auto const found = this->read(output);
  EXPECT_TRUE(std::isnan(found[0]));
  EXPECT_TRUE(std::vector<float>(found.begin() + 1, found.end()) == this->host_twin(lookup, table));
}

TYPED_TEST(EmbeddingTest, CountsEveryIdOutOfRangeOnce) {
  for (auto const width : kWidths) {
    auto bags = this->random_bags(200, 9, 5);
    bags.existing = 150;
    bags.ids[0] = std::int64_t{1} << 40;
    for (auto lookup : {bags, fixed(this->random.integers(500, -50, 99), 1)}) {
      lookup.width = width;
      auto const bad_ids = this->upload(std::vector<std::uint64_t>{1000});
      this->look_up(lookup, this->template table_of<float>(lookup), {bad_ids.data(), nullptr, 0});
      EXPECT_EQ(this->read(bad_ids)[0], 1000U + static_cast<std::uint64_t>(lookup.out_of_range()));
    }
  }
}

TYPED_TEST(EmbeddingTest, TrapKeepsTheFirstBadIdAndNoOther) {
  auto const trap = this->pinned(IdTrap{});
  IdReport const report{nullptr, trap.data(), 5};
  for (std::int64_t const hotness : {1, 2}) {
    *trap.data() = IdTrap{};
    auto lookup = fixed(this->random.integers(600, 0, 49), hotness);
    auto const table = this->template table_of<float>(lookup);
    this->look_up(lookup, table, report);
    EXPECT_EQ(trap.data()->set, 0U) << "no id was bad";

    lookup.ids[401] = lookup.rows;
    this->look_up(lookup, table, report);
    EXPECT_EQ(trap.data()->set, 1U);
    EXPECT_EQ(trap.data()->operation, 5U);
    EXPECT_EQ(trap.data()->id, lookup.rows);
    EXPECT_EQ(trap.data()->rows, lookup.rows);

    lookup.ids[401] = -1;
    this->look_up(lookup, table, report);
    EXPECT_EQ(trap.data()->id, lookup.rows) << "a sprung trap is not written again";
  }
}

TYPED_TEST(EmbeddingTest, RefusesTablesThatHoldNoRealNumbers) {
  LookupArgs args{};
  args.table_dtype = DType::int32;
  args.bags.bags = args.width = 1;
  EXPECT_THROW(embedding_lookup(this->stream(), args), std::invalid_argument);
}

TYPED_TEST(EmbeddingTest, RowGradientsOfFixedAndJaggedBags) {
  for (auto const pooling : {Pooling::sum, Pooling::mean}) {
    for (auto const width : kWidths) {
      // Below and above what one launch handles.
      for (std::int64_t const bags : {60, 1500}) {
        for (auto lookup : {fixed(this->random.integers(bags, -2, 52), 1),
                            fixed(this->random.integers(bags * 4, -2, 52), 4),
                            this->random_bags(bags, 6, 9)}) {
          lookup.pooling = pooling;
          lookup.width = width;
          this->expect_row_gradients(lookup);
          lookup.existing = bags / 2;
          this->expect_row_gradients(lookup);
        }
      }
    }
  }
}

TYPED_TEST(EmbeddingTest, RowGradientsOfOneHotRow) {
  for (std::int64_t const places : {2000, 30'000, 300'000}) {
    for (std::int64_t const width : {3, 16, 64}) {
      auto ids = this->random.integers(places, 0, 9'999);
      std::fill(ids.begin() + places / 20, ids.end() - places / 20, 4711);
      auto lookup = fixed(ids, 2);
      lookup.rows = 10'000;
      lookup.width = width;
      lookup.pooling = Pooling::mean;
      this->expect_row_gradients(lookup);
    }
  }
}

TYPED_TEST(EmbeddingTest, RowGradientsWhereNoIdIsValid) {
  for (std::int64_t const places : {0, 10, 5000}) {
    this->expect_row_gradients(fixed(Integers(static_cast<std::size_t>(places), -1), 1));
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
