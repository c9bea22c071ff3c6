// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding/embedding_tables.hpp"
#include "kernels/kernel_fixture.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

namespace msstream::ops::kernels::testing {

using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<std::int32_t>;
using Floats = std::vector<float>;

/// A table of a lookup in many tables, on the host. Its elements are floats that the table's type
/// holds exactly.
struct Table {
  std::int64_t rows = 50;
  std::int32_t width = 16;
  DType dtype = DType::float32;
  Pooling pooling = Pooling::sum;
  std::int32_t hotness = 1;
  std::int64_t default_id = -1;
  std::int64_t skew = 0;  ///< elements between a multiple of 16 bytes and the first row
  Floats elements = {};
};

/// The arguments of a lookup in many tables: ids in the order of the tables, with offsets or with
/// the hotness of each table.
struct TablesLookup {
  std::vector<Table> tables;
  std::int64_t batch = 0;
  std::optional<std::int64_t> existing = {};
  Integers ids = {};
  Integers offsets = {};  ///< empty if the hotness is fixed
  Floats weights = {};    ///< empty if all weights are 1
  DType output = DType::float32;
  bool has_32_bit_ids = false;
  bool has_argmax = false;

  [[nodiscard]] std::int64_t width() const {
    std::int64_t sum = 0;
    for (auto const& table : tables) {
      sum += table.width;
    }
    return sum;
  }
  [[nodiscard]] std::int64_t bags() const { return existing.value_or(batch); }
};

inline float rounded_to(DType dtype, float value) {
  switch (dtype) {
    case DType::float16:
      return to_float(from_float<float16>(value));
    case DType::bfloat16:
      return to_float(from_float<bfloat16>(value));
    default:
      return value;
  }
}

/// Returns the bytes of the elements as stored in the type `dtype`, after `skew` zeros.
inline std::vector<std::byte> stored(DType dtype, Floats const& values, std::int64_t skew = 0) {
  auto const element = bytes_of(dtype);
  auto const before = static_cast<std::size_t>(skew);
  std::vector<std::byte> bytes((before + values.size()) * element);
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto const put = [&](auto const& narrow) {
      std::memcpy(bytes.data() + (before + i) * element, &narrow, element);
    };
    dtype == DType::float16    ? put(from_float<float16>(values[i]))
    : dtype == DType::bfloat16 ? put(from_float<bfloat16>(values[i]))
                               : put(values[i]);
  }
  return bytes;
}

inline Floats loaded(DType dtype, std::vector<std::byte> const& bytes) {
  Floats values(bytes.size() / bytes_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto const take = [&](auto narrow) {
      std::memcpy(&narrow, bytes.data() + i * sizeof(narrow), sizeof(narrow));
      values[i] = to_float(narrow);
    };
    dtype == DType::float16    ? take(float16{})
    : dtype == DType::bfloat16 ? take(bfloat16{})
                               : take(float{});
  }
  return values;
}

/// Returns whether two floats are bitwise equal. Any two NaNs are equal.
inline bool same(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : std::memcmp(&a, &b, sizeof(a)) == 0;
}

template <class Stream>
class EmbeddingTablesTest : public KernelTest<Stream> {
 protected:
  static constexpr std::int32_t kUnwritten = -77;

  /// Fills the tables with random elements and the bags with random ids, of which one in ten is
  /// outside the table.
  void fill(TablesLookup& lookup) {
    for (auto& table : lookup.tables) {
      table.elements = this->random.reals(table.rows * table.width);
      for (auto& element : table.elements) {
        element = rounded_to(table.dtype, element);
      }
      auto const bags = lookup.offsets.empty() ? lookup.batch * table.hotness : 0;
      auto const ids = this->random.integers(bags, -3, table.rows + 2);
      lookup.ids.insert(lookup.ids.end(), ids.begin(), ids.end());
    }
  }
  /// Fills the tables with random elements and makes bags of 0 to `longest` random ids. `spare`
  /// further ids are in no bag.
  void fill_jagged(TablesLookup& lookup, std::int64_t longest, std::int64_t spare = 0) {
    lookup.offsets = {0};
    fill(lookup);
    for (auto const& table : lookup.tables) {
      for (std::int64_t bag = 0; bag < lookup.batch; ++bag) {
        auto const length = this->random.integer(0, longest);
        auto const ids = this->random.integers(length, -3, table.rows + 2);
        lookup.ids.insert(lookup.ids.end(), ids.begin(), ids.end());
        lookup.offsets.push_back(lookup.offsets.back() + length);
      }
    }
    lookup.ids.resize(lookup.ids.size() + static_cast<std::size_t>(spare), 1);
  }

  /// The arrays that a lookup writes.
  struct Written {
    Floats output;
    Numbers argmax;
  };

  template <class AnyStream, class Test>
  static Written run(Test& test, AnyStream, TablesLookup const& lookup, IdReport const& report) {
    std::vector<TableDescriptor> descriptors;
    std::vector<Buffer<std::byte>> memory;
    for (auto const& table : lookup.tables) {
      memory.push_back(test.upload(stored(table.dtype, table.elements, table.skew)));
      descriptors.push_back({.table = memory.back().data() +
                                      static_cast<std::size_t>(table.skew) * bytes_of(table.dtype),
                             .rows = table.rows,
                             .default_id = table.default_id,
                             .width = table.width,
                             .hotness = table.hotness,
                             .dtype = table.dtype,
                             .pooling = table.pooling});
    }
    auto const plan = plan_tables(descriptors);
    auto const tables = test.upload(plan.tables);
    auto const table_of_tile = test.upload(plan.table_of_tile);
    auto const narrow = [](Integers const& values) {
      return std::vector<std::int32_t>(values.begin(), values.end());
    };
    auto const ids = test.upload(lookup.ids);
    auto const offsets = test.upload(lookup.offsets);
    auto const narrow_ids = test.upload(narrow(lookup.ids));
    auto const narrow_offsets = test.upload(narrow(lookup.offsets));
    auto const weights = test.upload(lookup.weights);
    auto const batch_count = test.scalar(lookup.bags());
    auto const output = test.template poisoned<std::byte>(
        lookup.batch * lookup.width() * static_cast<std::int64_t>(bytes_of(lookup.output)));
    // -1 has a meaning in argmax, so that poison would not show a missing element.
    auto const argmax = test.upload(
        Numbers(static_cast<std::size_t>(lookup.batch * plan.argmax_width), kUnwritten));
    bool const is_narrow = lookup.has_32_bit_ids;
    auto const either = [&](auto const& wide, auto const& narrowed) -> void const* {
      return is_narrow ? static_cast<void const*>(narrowed.data()) : wide.data();
    };
    TablesLookupArgs const args{
        .plan = &plan,
        .tables = tables.data(),
        .table_of_tile = table_of_tile.data(),
        .batch = lookup.batch,
        .ids = either(ids, narrow_ids),
        .id_dtype = is_narrow ? DType::int32 : DType::int64,
        .capacity = static_cast<std::int64_t>(lookup.ids.size()),
        .offsets = lookup.offsets.empty() ? nullptr : either(offsets, narrow_offsets),
        .offset_bags = static_cast<std::int64_t>(lookup.offsets.size()) - 1,
        .batch_count = lookup.existing ? batch_count.data() : nullptr,
        .weights = lookup.weights.empty() ? nullptr : weights.data(),
        .report = report,
        .output = output.data(),
        .output_dtype = lookup.output,
        .argmax = lookup.has_argmax ? argmax.data() : nullptr};
    test.replay([&](AnyStream stream) { embedding_tables_lookup(stream, args); });
    return {loaded(lookup.output, test.read(output)), test.read(argmax)};
  }

  Floats look_up(TablesLookup const& lookup, IdReport const& report = {}) {
    return run(*this, this->stream(), lookup, report).output;
  }

  /// A fixture of the host implementation, whose bits the CUDA implementation must give.
  struct Host : KernelTest<HostStream> {
    Host() { SetUp(); }
    void TestBody() override {}
    using KernelTest<HostStream>::upload;
    using KernelTest<HostStream>::scalar;
    using KernelTest<HostStream>::poisoned;
    using KernelTest<HostStream>::replay;
    using KernelTest<HostStream>::read;
    using KernelTest<HostStream>::stream;
  };

  void expect_pooled(TablesLookup const& lookup) {
    auto const [found, argmax] = run(*this, this->stream(), lookup, {});
    if constexpr (!std::is_same_v<Stream, HostStream>) {
      Host host;
      auto const twin = run(host, host.stream(), lookup, {});
      for (std::size_t i = 0; i < found.size(); ++i) {
        ASSERT_TRUE(same(found[i], twin.output[i])) << "the twins differ at element " << i;
      }
      ASSERT_EQ(argmax, twin.argmax);
    }
    auto const argmax_width =
        static_cast<std::int64_t>(argmax.size()) / std::max<std::int64_t>(1, lookup.batch);
    std::int64_t column = 0;
    std::int64_t argmax_column = 0;
    std::int64_t first_place = 0;
    for (std::size_t t = 0; t < lookup.tables.size(); ++t) {
      auto const& table = lookup.tables[t];
      for (std::int64_t bag = 0; bag < lookup.batch; ++bag) {
        auto const in_offsets =
            t * static_cast<std::size_t>(lookup.batch) + static_cast<std::size_t>(bag);
        bool const is_jagged = !lookup.offsets.empty();
        auto const begin =
            is_jagged ? lookup.offsets[in_offsets] : first_place + bag * table.hotness;
        auto const end = is_jagged ? lookup.offsets[in_offsets + 1] : begin + table.hotness;
        for (std::int32_t c = 0; c < table.width; ++c) {
          auto const at = static_cast<std::size_t>(bag * lookup.width() + column + c);
          if (lookup.has_argmax && table.pooling == Pooling::max) {
            auto const winner = winner_of(lookup,
                                          table,
                                          c,
                                          bag < lookup.bags() ? begin : end,
                                          end,
                                          static_cast<std::int64_t>(lookup.ids.size() + in_offsets),
                                          bag < lookup.bags());
            ASSERT_EQ(argmax[static_cast<std::size_t>(bag * argmax_width + argmax_column + c)],
                      winner.place)
                << "table " << t << " of width " << table.width << ", bag " << bag << ", column "
                << c;
            ASSERT_TRUE(same(found[at], rounded_to(lookup.output, winner.element)));
            continue;
          }
          expect_element(lookup,
                         table,
                         c,
                         bag < lookup.bags() ? begin : end,
                         end,
                         bag < lookup.bags(),
                         found[at]);
          if (this->HasFatalFailure()) {
            FAIL() << "table " << t << " of width " << table.width << ", bag " << bag << ", column "
                   << c;
          }
        }
      }
      column += table.width;
      argmax_column += table.pooling == Pooling::max ? table.width : 0;
      first_place += lookup.batch * table.hotness;
    }
  }

  /// The place of the id whose row has the maximum, and the maximum: the first NaN, otherwise the
  /// first of the largest elements.
  struct Winner {
    std::int64_t place = -1;
    float element = 0.0F;
  };
  static Winner winner_of(TablesLookup const& lookup,
                          Table const& table,
                          std::int32_t column,
                          std::int64_t begin,
                          std::int64_t end,
                          std::int64_t default_place,
                          bool exists) {
    Winner winner;
    auto const element = [&](std::int64_t id) {
      return table.elements[static_cast<std::size_t>(id * table.width + column)];
    };
    for (auto place = begin; place < end && !std::isnan(winner.element); ++place) {
      auto const id = lookup.ids[static_cast<std::size_t>(place)];
      if (id >= 0 && id < table.rows &&
          (winner.place < 0 || std::isnan(element(id)) || element(id) > winner.element)) {
        winner = {place, element(id)};
      }
    }
    if (winner.place < 0 && exists && table.default_id >= 0) {
      winner = {default_place, element(table.default_id)};
    }
    return winner;
  }

  /// Compares one output element with its value in double. The bound on the rounding error is
  /// relative to the sum of the terms' magnitudes.
  static void expect_element(TablesLookup const& lookup,
                             Table const& table,
                             std::int32_t column,
                             std::int64_t begin,
                             std::int64_t end,
                             bool exists,
                             float found) {
    auto const element = [&](std::int64_t id) {
      return double{table.elements[static_cast<std::size_t>(id * table.width + column)]};
    };
    double sum = 0.0;
    double magnitude = 0.0;
    double weights = 0.0;
    double squares = 0.0;
    double largest = -std::numeric_limits<double>::infinity();
    int valid = 0;
    auto const add = [&](std::int64_t id, double weight) {
      sum += weight * element(id);
      magnitude += std::abs(weight * element(id));
      weights += weight;
      squares += weight * weight;
      largest = std::max(largest, element(id));
      ++valid;
    };
    for (auto place = begin; place < end; ++place) {
      auto const id = lookup.ids[static_cast<std::size_t>(place)];
      if (id >= 0 && id < table.rows) {
        add(id, lookup.weights.empty() ? 1.0 : lookup.weights[static_cast<std::size_t>(place)]);
      }
    }
    if (valid == 0 && exists && table.default_id >= 0) {
      add(table.default_id, 1.0);
    }
    double expected = 0.0;
    double divisor = 1.0;
    if (valid > 0) {
      divisor = table.pooling == Pooling::mean    ? weights
                : table.pooling == Pooling::sqrtn ? std::sqrt(squares)
                                                  : 1.0;
      expected = table.pooling == Pooling::max ? largest : divisor == 0.0 ? 0.0 : sum / divisor;
    }
    double const scale = divisor == 0.0 ? 0.0 : magnitude / std::abs(divisor);
    // The weights are positive, so that their own sum has a small error as well.
    double const narrowing = lookup.output == DType::float32   ? 0.0
                             : lookup.output == DType::float16 ? 0x1p-11
                                                               : 0x1p-8;
    double const tolerance = (2.0 * valid + 3.0) * scale * 0x1p-24 +
                             narrowing * std::abs(expected) +
                             (lookup.output == DType::float16 ? 0x1p-24 : 0.0);
    ASSERT_NEAR(found, expected, tolerance);
  }

  /// Returns tables of every width, type and pooling.
  static std::vector<Table> mixed_tables(std::int32_t hotness) {
    std::vector<Table> tables;
    int number = 0;
    for (std::int32_t const width : {1, 3, 4, 16, 33, 128, 1024, 8, 40}) {
      Table table;
      table.width = width;
      table.rows = 20 + 7 * number;
      table.dtype = std::array{DType::float32, DType::float16, DType::bfloat16}[number % 3];
      table.pooling =
          std::array{Pooling::sum, Pooling::mean, Pooling::sqrtn, Pooling::max}[number % 4];
      table.hotness = hotness;
      table.default_id = number % 2 == 0 ? -1 : 5;
      tables.push_back(table);
      ++number;
    }
    return tables;
  }
};

}  // namespace msstream::ops::kernels::testing
