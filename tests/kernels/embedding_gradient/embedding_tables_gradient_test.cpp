// SPDX-License-Identifier: Apache-2.0
#include "embedding_gradient/tables_gradient.hpp"
#include "kernels/kernel_fixture.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

namespace msstream::ops::kernels::testing {
namespace {

using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<std::int32_t>;
using Floats = std::vector<float>;

/// The inputs of the backward pass of a lookup in many tables: descriptors of tables, whose
/// elements are not read, and ids in the order of the tables.
struct Backward {
  std::vector<TableDescriptor> tables;
  std::int64_t batch = 0;
  std::optional<std::int64_t> existing = {};
  Integers ids = {};
  Integers offsets = {};
  Floats weights = {};
  bool has_32_bit_ids = false;
  DType rows = DType::int32;
  bool has_argmax = false;
  bool has_infinities = false;  ///< whether some elements of the output gradient are infinite

  [[nodiscard]] std::int64_t bags() const { return existing.value_or(batch); }
};

/// The contribution of one position to the gradients, as the test computes it: the row, the bag,
/// and the factor.
struct Place {
  std::size_t table;
  std::int64_t row;
  std::int64_t bag;
  double factor;
};

template <class Stream>
class EmbeddingTablesGradientTest : public KernelTest<Stream> {
 protected:
  void fill(Backward& backward, std::int64_t longest = 0) {
    backward.offsets = longest > 0 ? Integers{0} : Integers{};
    backward.ids.clear();
    for (auto const& table : backward.tables) {
      for (std::int64_t bag = 0; bag < backward.batch; ++bag) {
        auto const length = longest > 0 ? this->random.integer(0, longest) : table.hotness;
        auto const ids = this->random.integers(length, -2, table.rows + 1);
        backward.ids.insert(backward.ids.end(), ids.begin(), ids.end());
        if (longest > 0) {
          backward.offsets.push_back(static_cast<std::int64_t>(backward.ids.size()));
        }
      }
    }
  }

  /// Returns the positions that have a valid id, by their index. The indices of default ids begin
  /// at the capacity.
  static std::map<std::int64_t, Place> places_of(Backward const& backward) {
    std::map<std::int64_t, Place> places;
    std::int64_t first_place = 0;
    std::int64_t first_row = 0;
    auto const capacity = static_cast<std::int64_t>(backward.ids.size());
    for (std::size_t t = 0; t < backward.tables.size(); ++t) {
      auto const& table = backward.tables[t];
      for (std::int64_t bag = 0; bag < backward.bags(); ++bag) {
        auto const bag_of_all = static_cast<std::int64_t>(t) * backward.batch + bag;
        auto const at = static_cast<std::size_t>(bag_of_all);
        bool const is_jagged = !backward.offsets.empty();
        auto const begin = is_jagged ? backward.offsets[at] : first_place + bag * table.hotness;
        auto const end = is_jagged ? backward.offsets[at + 1] : begin + table.hotness;
        double total = 0.0;
        std::vector<std::pair<std::int64_t, double>> valid;
        for (auto place = begin; place < end; ++place) {
          auto const i = static_cast<std::size_t>(place);
          if (backward.ids[i] >= 0 && backward.ids[i] < table.rows) {
            double const weight = backward.weights.empty() ? 1.0 : backward.weights[i];
            total += table.pooling == Pooling::sqrtn ? weight * weight : weight;
            valid.emplace_back(place, weight);
          }
        }
        double const divisor = table.pooling == Pooling::mean    ? total
                               : table.pooling == Pooling::sqrtn ? std::sqrt(total)
                                                                 : 1.0;
        for (auto const& [place, weight] : valid) {
          auto const id = backward.ids[static_cast<std::size_t>(place)];
          places[place] = {t, first_row + id, bag, divisor == 0.0 ? 0.0 : weight / divisor};
        }
        if (valid.empty() && table.default_id >= 0) {
          places[capacity + bag_of_all] = {t, first_row + table.default_id, bag, 1.0};
        }
      }
      first_place += backward.batch * table.hotness;
      first_row += table.rows;
    }
    return places;
  }

  /// Returns for each column of each bag of a table of Pooling::max one of the bag's positions, or
  /// -1 if the bag has none.
  Numbers random_argmax(Backward const& backward,
                        TablePlan const& plan,
                        std::map<std::int64_t, Place> const& places) {
    Numbers argmax(static_cast<std::size_t>(backward.batch * plan.argmax_width), -1);
    std::map<std::pair<std::size_t, std::int64_t>, Numbers> of_bags;
    for (auto const& [place, about] : places) {
      of_bags[{about.table, about.bag}].push_back(static_cast<std::int32_t>(place));
    }
    for (auto const& [bag, members] : of_bags) {
      auto const& table = plan.tables[bag.first];
      for (std::int32_t c = 0; c < table.width && table.pooling == Pooling::max; ++c) {
        auto const winner = this->random.integer(0, std::ssize(members) - 1);
        argmax[static_cast<std::size_t>(bag.second * plan.argmax_width + table.first_argmax_column +
                                        c)] = members[static_cast<std::size_t>(winner)];
      }
    }
    return argmax;
  }

  template <class T>
  std::vector<T> rounded(Floats& values) {
    std::vector<T> narrow;
    for (auto& value : values) {
      narrow.push_back(from_float<T>(value));
      value = to_float(narrow.back());
    }
    return narrow;
  }

  template <class T = float>
  void expect_gradients(Backward const& backward) {
    auto const plan = plan_tables(backward.tables);
    auto const tables = this->upload(plan.tables);
    auto const first_rows = this->upload(plan.first_rows);
    auto const narrow = [](Integers const& values) {
      return Numbers(values.begin(), values.end());
    };
    auto const ids = this->upload(backward.ids);
    auto const offsets = this->upload(backward.offsets);
    auto const narrow_ids = this->upload(narrow(backward.ids));
    auto const narrow_offsets = this->upload(narrow(backward.offsets));
    auto const weights = this->upload(backward.weights);
    auto const batch_count = this->scalar(backward.bags());
    auto const either = [&](auto const& wide, auto const& narrowed) -> void const* {
      return backward.has_32_bit_ids ? static_cast<void const*>(narrowed.data()) : wide.data();
    };
    TablesLookupArgs const lookup{
        .plan = &plan,
        .tables = tables.data(),
        .table_of_tile = nullptr,
        .batch = backward.batch,
        .ids = either(ids, narrow_ids),
        .id_dtype = backward.has_32_bit_ids ? DType::int32 : DType::int64,
        .capacity = static_cast<std::int64_t>(backward.ids.size()),
        .offsets = backward.offsets.empty() ? nullptr : either(offsets, narrow_offsets),
        .offset_bags = static_cast<std::int64_t>(backward.offsets.size()) - 1,
        .batch_count = backward.existing ? batch_count.data() : nullptr,
        .weights = backward.weights.empty() ? nullptr : weights.data()};
    auto const places = place_capacity(lookup);
    bool const is_wide = backward.rows == DType::int64;
    auto const wide_rows = this->integers(is_wide ? places : 0);
    auto const narrow_rows = this->template poisoned<std::int32_t>(is_wide ? 0 : places);
    auto const bags_of_places = this->template poisoned<std::int32_t>(places);
    auto const factors = this->floats(places);
    bool const has_factors = plan.has_divisors || !backward.weights.empty();
    this->replay([&](Stream stream) {
      embedding_tables_places(
          stream,
          {.bags = lookup,
           .first_rows = first_rows.data(),
           .rows = is_wide ? static_cast<void*>(wide_rows.data()) : narrow_rows.data(),
           .row_dtype = backward.rows,
           .bags_of_places = bags_of_places.data(),
           .factors = has_factors ? factors.data() : nullptr});
    });

    auto const expected = places_of(backward);
    auto rows = this->read(wide_rows);
    if (!is_wide) {
      auto const found = this->read(narrow_rows);
      rows.assign(found.begin(), found.end());
    }
    auto const found_bags = this->read(bags_of_places);
    auto const found_factors = this->read(factors);
    std::map<std::int64_t, Numbers> groups;
    for (std::int64_t place = 0; place < places; ++place) {
      auto const i = static_cast<std::size_t>(place);
      auto const it = expected.find(place);
      ASSERT_EQ(rows[i], it == expected.end() ? -1 : it->second.row) << "place " << place;
      if (it != expected.end()) {
        auto const& [table, row, bag, factor] = it->second;
        ASSERT_EQ(found_bags[i], static_cast<std::int64_t>(table) * backward.batch + bag);
        if (has_factors) {
          ASSERT_NEAR(found_factors[i], factor, 1e-5 * std::abs(factor)) << "place " << place;
        }
        groups[row].push_back(static_cast<std::int32_t>(place));
      }
    }
    sum_groups<T>(backward,
                  plan,
                  tables,
                  first_rows,
                  bags_of_places,
                  has_factors ? factors.data() : nullptr,
                  places,
                  expected,
                  groups);
  }

  template <class T>
  void sum_groups(Backward const& backward,
                  TablePlan const& plan,
                  Buffer<TableDescriptor> const& tables,
                  Buffer<std::int64_t> const& first_rows,
                  Buffer<std::int32_t> const& bags_of_places,
                  float const* factors,
                  std::int64_t places,
                  std::map<std::int64_t, Place> const& expected,
                  std::map<std::int64_t, Numbers> const& groups) {
    Integers unique_rows;
    Numbers starts{0};
    Numbers positions;
    Numbers ranks;
    for (auto const& [row, members] : groups) {
      ranks.insert(ranks.end(), members.size(), static_cast<std::int32_t>(unique_rows.size()));
      unique_rows.push_back(row);
      positions.insert(positions.end(), members.begin(), members.end());
      starts.push_back(static_cast<std::int32_t>(positions.size()));
    }
    auto const uniques = static_cast<std::int64_t>(unique_rows.size());
    auto const all = static_cast<std::size_t>(places);
    unique_rows.resize(all, -1);
    positions.resize(all, -1);
    ranks.resize(all, -1);
    starts.resize(all + 1, -1);
    auto const all_argmax = random_argmax(backward, plan, expected);
    auto const argmax = this->upload(all_argmax);
    auto gradients = this->random.reals(backward.batch * plan.width);
    for (std::size_t i = 0; i < gradients.size() && backward.has_infinities; i += 7) {
      gradients[i] = std::numeric_limits<float>::infinity();
    }
    auto const output_gradient = this->upload(rounded<T>(gradients));
    auto const device_rows = this->upload(unique_rows);
    auto const device_starts = this->upload(starts);
    auto const device_positions = this->upload(positions);
    auto const device_ranks = this->upload(ranks);
    auto const unique_count = this->scalar(uniques);
    auto const tables_count = static_cast<std::int64_t>(plan.tables.size());
    auto const table_starts = this->integers(tables_count + 1);
    auto const memory = this->workspace(
        embedding_tables_gradient_workspace_bytes(this->stream(), places, plan.widest));
    auto const run = [&] {
      auto const values = this->floats(places * plan.widest);
      this->replay([&](Stream stream) {
        embedding_tables_gradient(stream,
                                  {.plan = &plan,
                                   .tables = tables.data(),
                                   .first_rows = first_rows.data(),
                                   .batch = backward.batch,
                                   .places = places,
                                   .unique_rows = device_rows.data(),
                                   .starts = device_starts.data(),
                                   .positions = device_positions.data(),
                                   .ranks = device_ranks.data(),
                                   .unique_count = unique_count.data(),
                                   .bags_of_places = bags_of_places.data(),
                                   .factors = factors,
                                   .output_gradient = output_gradient.data(),
                                   .gradient_dtype = dtype_of<T>,
                                   .values = values.data(),
                                   .table_starts = table_starts.data(),
                                   .workspace = memory.data(),
                                   .argmax = backward.has_argmax ? argmax.data() : nullptr});
      });
      return this->read(values);
    };
    auto const found = run();
    auto const again = run();
    auto const found_starts = this->read(table_starts);
    Integers expected_starts(static_cast<std::size_t>(tables_count) + 1, 0);
    for (std::int64_t u = 0; u < places; ++u) {
      bool const exists = u < uniques;
      auto const i = static_cast<std::size_t>(u);
      auto const& members = exists ? groups.at(unique_rows[i]) : Numbers{};
      std::size_t const table = exists ? expected.at(members.front()).table : 0;
      std::int64_t const width = exists ? plan.tables[table].width : 0;
      if (exists) {
        ++expected_starts[table + 1];
      }
      for (std::int64_t c = 0; c < plan.widest; ++c) {
        auto const at = static_cast<std::size_t>(u * plan.widest + c);
        if (c >= width) {
          ASSERT_TRUE(std::isnan(found[at])) << "touched: row " << u << " column " << c;
          continue;
        }
        double sum = 0.0;
        double magnitude = 0.0;
        for (auto const place : members) {
          auto const& [of, row, bag, factor] = expected.at(place);
          if (backward.has_argmax && plan.tables[of].pooling == Pooling::max &&
              all_argmax[static_cast<std::size_t>(
                  bag * plan.argmax_width + plan.tables[of].first_argmax_column + c)] != place) {
            continue;
          }
          auto const element = bag * plan.width + plan.tables[of].first_column + c;
          double const term = factor * gradients[static_cast<std::size_t>(element)];
          sum += term;
          magnitude += std::abs(term);
        }
        if (std::isinf(sum)) {
          ASSERT_EQ(found[at], sum) << "unique row " << u << " column " << c;
        } else {
          ASSERT_NEAR(
              found[at], sum, (static_cast<double>(members.size()) + 60.0) * magnitude * 0x1p-24)
              << "unique row " << u << " column " << c;
        }
        ASSERT_EQ(found[at], again[at]) << "two runs differ";
      }
    }
    for (std::size_t t = 1; t < expected_starts.size(); ++t) {
      expected_starts[t] += expected_starts[t - 1];
    }
    EXPECT_EQ(found_starts, expected_starts);
  }

  static std::vector<TableDescriptor> mixed_tables(std::int32_t hotness) {
    std::vector<TableDescriptor> tables;
    int number = 0;
    for (std::int32_t const width : {1, 3, 4, 16, 33, 128, 200, 8}) {
      tables.push_back(
          {.rows = 5 + 4 * number,
           .default_id = number % 2 == 0 ? -1 : 2,
           .width = width,
           .hotness = hotness,
           .pooling = std::array{Pooling::sum, Pooling::mean, Pooling::sqrtn}[number % 3]});
      ++number;
    }
    return tables;
  }
};
TYPED_TEST_SUITE(EmbeddingTablesGradientTest, StreamKinds, StreamKindName);

TYPED_TEST(EmbeddingTablesGradientTest, mixed_tables_of_any_hotness) {
  for (std::int32_t const hotness : {0, 1, 5, 20}) {
    Backward backward{.tables = this->mixed_tables(hotness), .batch = 40};
    this->fill(backward);
    this->expect_gradients(backward);
    this->template expect_gradients<float16>(backward);
    this->template expect_gradients<bfloat16>(backward);
    backward.has_32_bit_ids = true;
    backward.rows = DType::int64;
    this->expect_gradients(backward);
  }
}

TYPED_TEST(EmbeddingTablesGradientTest, jagged_and_weighted_bags) {
  for (std::int64_t const longest : {1, 12}) {
    for (bool const is_weighted : {false, true}) {
      Backward backward{.tables = this->mixed_tables(1), .batch = 30};
      this->fill(backward, longest);
      if (is_weighted) {
        backward.weights =
            this->random.reals(static_cast<std::int64_t>(backward.ids.size()), 0.1F, 2.0F);
      }
      for (std::int64_t const existing : {0, 7, 30}) {
        backward.existing = existing;
        this->expect_gradients(backward);
        backward.has_32_bit_ids = !backward.has_32_bit_ids;
      }
    }
  }
}

TYPED_TEST(EmbeddingTablesGradientTest, sums_only) {
  Backward backward{.tables = {{.rows = 30, .width = 64}, {.rows = 3, .width = 64}}, .batch = 100};
  this->fill(backward);
  this->expect_gradients(backward);
  backward.batch = 0;
  this->fill(backward);
  this->expect_gradients(backward);
}

TYPED_TEST(EmbeddingTablesGradientTest, hundreds_of_tables) {
  Backward backward{.tables = {}, .batch = 9};
  for (std::int32_t t = 0; t < 600; ++t) {
    backward.tables.push_back({.rows = 1 + t % 5, .width = 1 + t % 9, .hotness = t % 3});
  }
  this->fill(backward);
  this->expect_gradients(backward);
}

// Rows extend over a few parts of the sorted positions, or over so many that a whole block adds
// them.
TYPED_TEST(EmbeddingTablesGradientTest, hot_rows) {
  for (std::int32_t const width : {4, 33, 256, 520}) {
    Backward backward{.tables = {{.rows = 2, .width = width, .hotness = 40},
                                 {.rows = 1, .width = 12, .hotness = 3},
                                 {.rows = 400, .width = width}},
                      .batch = 300};
    this->fill(backward);
    this->expect_gradients(backward);
  }
}

TYPED_TEST(EmbeddingTablesGradientTest, only_the_place_of_a_maximum_has_a_gradient) {
  for (std::int32_t const hotness : {1, 5, 20}) {
    Backward backward{
        .tables = this->mixed_tables(hotness), .batch = 40, .existing = 38, .has_argmax = true};
    for (std::size_t t = 0; t < backward.tables.size(); ++t) {
      backward.tables[t].pooling = t % 3 == 1 ? Pooling::mean : Pooling::max;
    }
    for (bool const has_infinities : {false, true}) {
      backward.has_infinities = has_infinities;
      this->fill(backward);
      this->expect_gradients(backward);
      this->template expect_gradients<bfloat16>(backward);
      backward.has_32_bit_ids = !backward.has_32_bit_ids;
      this->fill(backward, hotness);
      this->expect_gradients(backward);
    }
  }
}

TYPED_TEST(EmbeddingTablesGradientTest, maxima_of_one_id_need_no_argmax) {
  Backward backward{.tables = this->mixed_tables(1), .batch = 40};
  for (auto& table : backward.tables) {
    table.pooling = Pooling::max;
  }
  this->fill(backward);
  this->expect_gradients(backward);
}

// Each row is the maximum of many bags, so that its sum extends over many parts.
TYPED_TEST(EmbeddingTablesGradientTest, hot_rows_of_maxima) {
  Backward backward{
      .tables = {{.rows = 2, .width = 33, .hotness = 40, .pooling = Pooling::max},
                 {.rows = 400, .width = 128},
                 {.rows = 1, .default_id = 0, .width = 4, .hotness = 70, .pooling = Pooling::max}},
      .batch = 300,
      .has_argmax = true};
  this->fill(backward);
  this->expect_gradients(backward);
  this->fill(backward, 90);
  this->expect_gradients(backward);
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
