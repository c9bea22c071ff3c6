// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/many.hpp"
#include "embedding/lookup.hpp"
#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <type_traits>

namespace msstream::ops::kernels::testing {

using Integers = std::vector<std::int64_t>;
using Floats = std::vector<float>;
using Bytes = std::vector<std::byte>;

/// Returns values as the bytes of elements of type T, so that one test can use tables of all types.
template <class T, class From>
Bytes packed_as(std::vector<From> const& values) {
  Bytes bytes(values.size() * sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T element;
    if constexpr (std::is_same_v<From, float>) {
      element = from_float<T>(values[i]);
    } else {
      element = static_cast<T>(values[i]);
    }
    std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
  }
  return bytes;
}
inline Bytes packed(Floats const& values, DType dtype) {
  return dtype == DType::float32   ? packed_as<float>(values)
         : dtype == DType::float16 ? packed_as<float16>(values)
                                   : packed_as<bfloat16>(values);
}
inline Bytes packed(Integers const& values, DType dtype) {
  return dtype == DType::int32 ? packed_as<std::int32_t>(values) : packed_as<std::int64_t>(values);
}

template <class T>
Floats unpacked_as(Bytes const& bytes) {
  Floats values(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = to_float(element);
  }
  return values;
}
inline Floats unpacked(Bytes const& bytes, DType dtype) {
  return dtype == DType::float32   ? unpacked_as<float>(bytes)
         : dtype == DType::float16 ? unpacked_as<float16>(bytes)
                                   : unpacked_as<bfloat16>(bytes);
}

/// Returns whether all floats are bitwise equal, except that any two NaNs are equal.
inline bool are_same(Floats const& a, Floats const& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return (std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y));
  });
}

/// The arguments of one lookup on the host: bags of ids, of which the first `existing` exist.
struct Lookup {
  Integers ids;
  Integers offsets;          ///< empty if the hotness is fixed
  std::int64_t hotness = 1;  ///< unused with offsets
  std::int64_t bags = 0;
  std::int64_t existing = 0;
  std::int64_t rows = 50;
  std::int64_t width = 16;
  Pooling pooling = Pooling::sum;
  Floats weights = {};  ///< empty if all weights are 1
  std::int64_t default_id = -1;
  DType id_dtype = DType::int64;
  DType table_dtype = DType::float32;
  DType output_dtype = DType::float32;

  [[nodiscard]] std::int64_t capacity() const { return static_cast<std::int64_t>(ids.size()); }
  [[nodiscard]] std::int64_t begin(std::int64_t bag) const {
    return offsets.empty() ? bag * hotness : offsets[static_cast<std::size_t>(bag)];
  }
  [[nodiscard]] std::int64_t output_rows() const {
    return pooling == Pooling::none ? capacity() : bags;
  }
  /// Returns the positions of the ids of an output row, including bad ids.
  [[nodiscard]] Integers places(std::int64_t row) const {
    Integers out;
    if (pooling == Pooling::none) {
      if (row >= begin(0) && row < begin(existing)) {
        out.push_back(row);
      }
    } else if (row < existing) {
      for (auto place = begin(row); place < begin(row + 1); ++place) {
        out.push_back(place);
      }
    }
    return out;
  }
  [[nodiscard]] std::int64_t id(std::int64_t place) const {
    return place < capacity() ? ids[static_cast<std::size_t>(place)] : default_id;
  }
  [[nodiscard]] bool has(std::int64_t place) const { return id(place) >= 0 && id(place) < rows; }
  [[nodiscard]] double weight(std::int64_t place) const {
    return weights.empty() || place >= capacity() ? 1.0 : weights[static_cast<std::size_t>(place)];
  }
  /// Returns the positions of the valid ids of an output row. A position p ≥ the capacity means the
  /// default id of bag p - capacity.
  [[nodiscard]] Integers valid_places(std::int64_t row) const {
    auto out = places(row);
    std::erase_if(out, [&](auto place) { return !has(place); });
    if (out.empty() && default_id >= 0 && row < existing && pooling != Pooling::none) {
      out.push_back(capacity() + row);
    }
    return out;
  }
  [[nodiscard]] std::int64_t out_of_range() const {
    std::int64_t count = 0;
    for (std::int64_t row = 0; row < output_rows(); ++row) {
      for (auto const place : places(row)) {
        count += has(place) ? 0 : 1;
      }
    }
    return count;
  }
};

inline Lookup fixed(Integers ids, std::int64_t hotness) {
  Lookup lookup;
  lookup.bags = lookup.existing = static_cast<std::int64_t>(ids.size()) / hotness;
  lookup.ids = std::move(ids);
  lookup.hotness = hotness;
  return lookup;
}

inline Lookup jagged(Integers ids, Integers offsets) {
  Lookup lookup;
  lookup.bags = lookup.existing = static_cast<std::int64_t>(offsets.size()) - 1;
  lookup.ids = std::move(ids);
  lookup.offsets = std::move(offsets);
  lookup.hotness = 0;
  return lookup;
}

struct Found {
  Floats output;
  std::vector<std::int32_t> argmax;
};

/// A fixture that runs lookups on a stream, and compares the results with those in double precision
/// and with those of the host implementation.
template <class Stream>
class EmbeddingTest : public KernelTest<Stream> {
 protected:
  /// Returns `count`, of bags that reach a path of the GPU's kernels, and a quarter of it on the
  /// host, unless it is at_night().
  [[nodiscard]] static std::int64_t many_on_gpu(std::int64_t count) {
    return std::is_same_v<Stream, HostStream> && !msstream::testing::at_night() ? count / 4 : count;
  }

  /// Returns random elements for a lookup's table, which the table's type holds exactly.
  Floats table_of(Lookup const& lookup) {
    return unpacked(packed(this->random.reals(lookup.rows * lookup.width), lookup.table_dtype),
                    lookup.table_dtype);
  }

  /// Returns a lookup in jagged bags of 0 to `longest` ids. One in ten ids is outside the table,
  /// and `spare` positions at the end are unused.
  Lookup random_bags(std::int64_t bags, std::int64_t longest, std::int64_t spare = 0) {
    Integers offsets{0};
    for (auto const length : this->random.integers(bags, 0, longest)) {
      offsets.push_back(offsets.back() + length);
    }
    auto const capacity = offsets.back() + spare;
    return jagged(this->random.integers(capacity, -2, 52), std::move(offsets));
  }
  Floats random_weights(Lookup const& lookup) {
    return this->random.reals(lookup.capacity(), 0.25F, 2.0F);
  }

  Found look_up(Lookup const& lookup, Floats const& table, IdReport const& report = {}) {
    return look_up_on(
        *this, [this](auto issue) { this->replay(issue); }, lookup, table, report);
  }
  /// Returns the results of the host implementation for a lookup.
  Found host_twin(Lookup const& lookup, Floats const& table) {
    HostMemory memory;
    return look_up_on(memory, [&](auto issue) { memory.run(issue); }, lookup, table, {});
  }

  void expect_pooled(Lookup const& lookup) { expect_pooled(lookup, table_of(lookup)); }
  void expect_pooled(Lookup const& lookup, Floats const& table) {
    auto const found = look_up(lookup, table);
    auto const twin = host_twin(lookup, table);
    EXPECT_TRUE(are_same(found.output, twin.output)) << "the twins differ in " << name(lookup);
    EXPECT_TRUE(found.argmax == twin.argmax) << "the twins' places differ in " << name(lookup);
    for (std::int64_t row = 0; row < lookup.output_rows(); ++row) {
      auto const places = lookup.valid_places(row);
      for (std::int64_t c = 0; c < lookup.width; ++c) {
        auto const at = static_cast<std::size_t>(row * lookup.width + c);
        auto const expected = expected_at(lookup, table, places, c);
        ASSERT_NEAR(found.output[at], expected.value, expected.error)
            << "row " << row << " column " << c << " of " << name(lookup);
        if (lookup.pooling == Pooling::max) {
          ASSERT_EQ(found.argmax[at], expected.place) << "row " << row << " column " << c;
        }
      }
    }
  }

  void expect_pooled_everywhere(Lookup lookup) {
    for (auto const pooling : kPoolings) {
      lookup.pooling = pooling;
      for (auto const width : {1, 3, 4, 16, 33, 128, 1024}) {
        lookup.width = width;
        expect_pooled(lookup);
      }
    }
  }

  static constexpr std::array kPoolings = {
      Pooling::sum, Pooling::mean, Pooling::sqrtn, Pooling::max, Pooling::none};

 private:
  /// Memory and a stream of the host, with the interface that the fixture has for its machine.
  class HostMemory {
   public:
    template <class T>
    Buffer<T> upload(std::vector<T> const& values) {
      Buffer<T> buffer(machine_.allocate(values.size() * sizeof(T)), values.size());
      machine_.copy_in(buffer.data(), values.data(), buffer.bytes());
      return buffer;
    }
    Buffer<std::int64_t> scalar(std::int64_t value) { return upload(std::vector{value}); }
    template <class T>
    Buffer<T> poisoned(std::int64_t count) {
      auto const elements = static_cast<std::size_t>(count);
      Buffer<T> buffer(machine_.allocate(elements * sizeof(T)), elements);
      machine_.fill(buffer.data(), kPoisonByte, buffer.bytes());
      return buffer;
    }
    template <class T>
    std::vector<T> read(Buffer<T> const& buffer) {
      return {buffer.data(), buffer.data() + buffer.count()};
    }
    template <class Issue>
    void run(Issue const& issue) {
      issue(machine_.stream());
      machine_.synchronise();
    }

   private:
    Machine<HostStream> machine_;
  };

  template <class Memory, class Run>
  static Found look_up_on(Memory& memory,
                          Run const& run,
                          Lookup const& lookup,
                          Floats const& table,
                          IdReport const& report) {
    auto const rows = memory.upload(packed(table, lookup.table_dtype));
    auto const ids = memory.upload(packed(lookup.ids, lookup.id_dtype));
    auto const offsets = memory.upload(packed(lookup.offsets, lookup.id_dtype));
    auto const weights = memory.upload(lookup.weights);
    auto const bag_count = memory.scalar(lookup.existing);
    auto const count = lookup.output_rows() * lookup.width;
    auto const output = memory.template poisoned<std::byte>(
        count * static_cast<std::int64_t>(bytes_of(lookup.output_dtype)));
    bool const is_max = lookup.pooling == Pooling::max;
    auto const argmax = memory.template poisoned<std::int32_t>(is_max ? count : 0);
    LookupArgs const args{
        .table = rows.data(),
        .table_dtype = lookup.table_dtype,
        .rows = lookup.rows,
        .width = lookup.width,
        .bags = {.ids = ids.data(),
                 .id_dtype = lookup.id_dtype,
                 .bags = lookup.bags,
                 .capacity = lookup.capacity(),
                 .hotness = lookup.hotness,
                 .offsets = lookup.offsets.empty() ? nullptr : offsets.data(),
                 .bag_count = lookup.existing < lookup.bags ? bag_count.data() : nullptr,
                 .weights = lookup.weights.empty() ? nullptr : weights.data(),
                 .default_id = lookup.default_id},
        .pooling = lookup.pooling,
        .report = report,
        .output = output.data(),
        .output_dtype = lookup.output_dtype,
        .argmax = is_max ? argmax.data() : nullptr};
    run([&](auto stream) { embedding_lookup(stream, args); });
    return {unpacked(memory.read(output), lookup.output_dtype), memory.read(argmax)};
  }

  struct Expected {
    double value = 0.0;
    double error = 0.0;  ///< bound of the rounding error
    std::int64_t place = -1;
  };

  static Expected expected_at(Lookup const& lookup,
                              Floats const& table,
                              Integers const& places,
                              std::int64_t column) {
    double sum = 0.0;
    double magnitude = 0.0;
    double weights = 0.0;
    double squares = 0.0;
    Expected expected;
    for (auto const place : places) {
      double const row = table[static_cast<std::size_t>(lookup.id(place) * lookup.width + column)];
      auto const weight = lookup.weight(place);
      sum += weight * row;
      magnitude += std::abs(weight * row);
      weights += weight;
      squares += weight * weight;
      if (expected.place < 0 || row > expected.value) {
        expected.place = place;
        expected.value = row;
      }
    }
    if (lookup.pooling != Pooling::max) {
      double const divisor = lookup.pooling == Pooling::mean    ? weights
                             : lookup.pooling == Pooling::sqrtn ? std::sqrt(squares)
                                                                : 1.0;
      expected.value = divisor == 0.0 ? 0.0 : sum / divisor;
      // The error of each operation is at most half a unit in the last place. A sum has a product
      // and an addition for each row, as many for the divisor, and the division.
      auto const operations = 4.0 * static_cast<double>(places.size()) + 2.0;
      expected.error = divisor == 0.0 ? 0.0 : operations * magnitude / divisor * 0x1p-24;
    }
    auto const relative = lookup.output_dtype == DType::float32   ? 0.0
                          : lookup.output_dtype == DType::float16 ? 0x1p-11
                                                                  : 0x1p-8;
    expected.error += std::abs(expected.value) * relative + (relative > 0.0 ? 0x1p-24 : 0.0);
    return expected;
  }

  static std::string name(Lookup const& lookup) {
    return fmt::format("pooling {} width {} ids {} table {} output {}{}{}",
                       static_cast<int>(lookup.pooling),
                       lookup.width,
                       lookup.id_dtype,
                       lookup.table_dtype,
                       lookup.output_dtype,
                       lookup.offsets.empty() ? " fixed" : " jagged",
                       lookup.weights.empty() ? "" : " weighted");
  }
};

}  // namespace msstream::ops::kernels::testing
