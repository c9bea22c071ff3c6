// SPDX-License-Identifier: Apache-2.0
#include "embedding/gather.hpp"

#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

namespace msstream::ops::kernels::testing {
namespace {

using RowBytes = std::vector<std::uint8_t>;
using Integers = std::vector<std::int64_t>;

/// Row sizes in bytes that are copied as vectors of 16, 8, 4 and 2 bytes and as single bytes, among
/// them rows longer than a warp copies at once, and than the grid's columns.
constexpr std::int64_t kRowBytes[] = {1, 2, 4, 6, 8, 12, 16, 64, 132, 512, 800, 4096, 40'000};

template <class Stream>
class GatherTest : public KernelTest<Stream> {
 protected:
  RowBytes random_bytes(std::int64_t count) {
    RowBytes bytes;
    for (auto const value : this->random.integers(count, 0, 0xFE)) {
      bytes.push_back(static_cast<std::uint8_t>(value));
    }
    return bytes;
  }
  /// Returns memory that contains `bytes` at `offset` and is poisoned elsewhere.
  Buffer<std::uint8_t> at_offset(RowBytes const& bytes, std::int64_t offset) {
    RowBytes all(static_cast<std::size_t>(offset), std::uint8_t{kPoisonByte});
    all.insert(all.end(), bytes.begin(), bytes.end());
    return this->upload(all);
  }
  static RowBytes row_of(RowBytes const& rows, std::int64_t row, std::int64_t row_bytes) {
    auto const begin = rows.begin() + row * row_bytes;
    return {begin, begin + row_bytes};
  }
  static void set_row(RowBytes& rows, std::int64_t row, RowBytes const& values) {
    std::copy(values.begin(), values.end(), rows.begin() + row * std::ssize(values));
  }
  static std::vector<std::int32_t> narrowed(Integers const& ids) {
    return {ids.begin(), ids.end()};
  }

  template <class Id>
  void expect_gathered(std::vector<Id> const& ids,
                       std::int64_t rows,
                       std::int64_t row_bytes,
                       std::int64_t existing,
                       std::int64_t offset = 0) {
    SCOPED_TRACE(
        fmt::format("{} ids of {} rows of {} bytes at {}", ids.size(), rows, row_bytes, offset));
    auto const capacity = std::ssize(ids);
    auto const table = random_bytes(rows * row_bytes);
    RowBytes expected(static_cast<std::size_t>(capacity * row_bytes), std::uint8_t{kPoisonByte});
    for (std::int64_t i = 0; i < std::clamp<std::int64_t>(existing, 0, capacity); ++i) {
      auto const id = ids[static_cast<std::size_t>(i)];
      set_row(expected,
              i,
              id >= 0 && id < rows ? row_of(table, id, row_bytes)
                                   : RowBytes(static_cast<std::size_t>(row_bytes), 0));
    }
    auto const source = at_offset(table, offset);
    auto const input = this->upload(ids);
    auto const count = this->scalar(existing);
    auto const output = this->template poisoned<std::uint8_t>(capacity * row_bytes + offset);
    this->replay([&](Stream stream) {
      gather_rows(stream,
                  {source.data() + offset,
                   rows,
                   row_bytes,
                   input.data(),
                   capacity,
                   existing == capacity ? nullptr : count.data(),
                   output.data() + offset});
    });
    auto const found = this->read(output);
    EXPECT_TRUE(RowBytes(found.begin() + offset, found.end()) == expected);
  }

  template <class Id>
  void expect_scattered(std::vector<Id> const& ids,
                        std::int64_t rows,
                        std::int64_t row_bytes,
                        std::int64_t existing) {
    SCOPED_TRACE(fmt::format("{} ids of {} rows of {} bytes", ids.size(), rows, row_bytes));
    auto const capacity = std::ssize(ids);
    auto const values = random_bytes(capacity * row_bytes);
    auto const before = random_bytes(rows * row_bytes);
    auto const upstream = random_bytes(rows * row_bytes);
    auto kept = before;
    RowBytes fresh(before.size(), 0);
    RowBytes gradients(values.size(), 0);
    Integers last_places(static_cast<std::size_t>(rows), -1);
    for (std::int64_t i = 0; i < std::clamp<std::int64_t>(existing, 0, capacity); ++i) {
      auto const id = ids[static_cast<std::size_t>(i)];
      if (id >= 0 && id < rows) {
        set_row(kept, id, row_of(values, i, row_bytes));
        set_row(fresh, id, row_of(values, i, row_bytes));
        last_places[static_cast<std::size_t>(id)] = i;
      }
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      if (auto const place = last_places[static_cast<std::size_t>(row)]; place >= 0) {
        set_row(gradients, place, row_of(upstream, row, row_bytes));
      }
    }
    auto const input = this->upload(values);
    auto const places = this->upload(ids);
    auto const count = this->scalar(existing);
    // The workspace is filled with a value greater than every position, so that a test fails if a
    // kernel reads it before writing it.
    auto const memory_of = [&](std::size_t bytes) {
      return this->upload(std::vector<std::int32_t>(bytes / 4, 0x7FFFFFFF));
    };
    auto const memory =
        memory_of(scatter_rows_workspace_bytes(this->stream(), capacity, rows, false));
    auto const other_memory =
        memory_of(scatter_rows_workspace_bytes(this->stream(), capacity, rows, true));
    auto const last_memory =
        memory_of(scatter_rows_gradient_workspace_bytes(this->stream(), capacity, rows));
    RowTargets targets{places.data(),
                       capacity,
                       existing == capacity ? nullptr : count.data(),
                       rows,
                       memory.data()};
    auto const output = this->template poisoned<std::uint8_t>(rows * row_bytes);
    this->replay([&](Stream stream) {
      scatter_rows(stream, {input.data(), row_bytes, targets, false, output.data()});
    });
    EXPECT_TRUE(this->read(output) == fresh);
    auto const table = this->upload(before);
    targets.workspace = other_memory.data();
    this->replay([&](Stream stream) {
      scatter_rows(stream, {input.data(), row_bytes, targets, true, table.data()});
    });
    EXPECT_TRUE(this->read(table) == kept);
    auto const gradient_in = this->upload(upstream);
    targets.workspace = last_memory.data();
    auto const gradient = this->template poisoned<std::uint8_t>(capacity * row_bytes);
    this->replay([&](Stream stream) {
      scatter_rows_gradient(stream, {gradient_in.data(), row_bytes, targets, gradient.data()});
    });
    EXPECT_TRUE(this->read(gradient) == gradients);
  }
};
TYPED_TEST_SUITE(GatherTest, StreamKinds, StreamKindName);

TYPED_TEST(GatherTest, rows_of_any_bytes_and_zeros_for_ids_that_are_no_row) {
  for (auto const row_bytes : kRowBytes) {
    for (std::int64_t const capacity : {0, 1, 37, 700}) {
      auto const ids = this->random.integers(capacity, -2, 52);
      this->expect_gathered(ids, 50, row_bytes, capacity);
      this->expect_gathered(this->narrowed(ids), 50, row_bytes, capacity / 2);
    }
  }
  this->expect_gathered(Integers{0, std::int64_t{1} << 40U, -(std::int64_t{1} << 40U)}, 2, 16, 3);
  this->expect_gathered(Integers{0, -1}, 0, 16, 2);
}

TYPED_TEST(GatherTest, enough_rows_for_several_in_flight) {
  for (std::int64_t const row_bytes : {1, 4, 16, 64, 80}) {
    this->expect_gathered(this->random.integers(100'003, -1, 999), 999, row_bytes, 100'003);
    this->expect_gathered(this->random.integers(100'003, -1, 999), 999, row_bytes, 70'001);
  }
  this->expect_gathered(this->random.integers(20'003, -1, 999), 999, 512, 20'003);
}

TYPED_TEST(GatherTest, unaligned_views) {
  for (std::int64_t const offset : {1, 2, 4, 8, 12}) {
    for (std::int64_t const row_bytes : {4, 16, 512}) {
      this->expect_gathered(this->random.integers(100, 0, 49), 50, row_bytes, 100, offset);
    }
  }
}

TYPED_TEST(GatherTest, scatter_lets_the_last_of_a_rows_places_count) {
  for (std::int64_t const row_bytes : {2, 4, 16, 132, 800}) {
    for (std::int64_t const capacity : {0, 1, 300, 2000}) {
      for (std::int64_t const rows : {0, 1, 40, 2000}) {
        auto const ids = this->random.integers(capacity, -2, rows + 1);
        this->expect_scattered(ids, rows, row_bytes, capacity);
        this->expect_scattered(this->narrowed(ids), rows, row_bytes, capacity / 3);
      }
    }
  }
}

TYPED_TEST(GatherTest, scatter_of_many_places) {
  for (std::int64_t const rows : {7, 3000, 200'000}) {
    for (std::int64_t const capacity : {4096, 4097, 50'001}) {
      auto const ids = this->random.integers(capacity, -2, rows + 1);
      this->expect_scattered(ids, rows, 16, capacity);
      this->expect_scattered(this->narrowed(ids), rows, 4, capacity / 3);
    }
  }
}

TYPED_TEST(GatherTest, scatter_of_one_row_thousands_of_times) {
  this->expect_scattered(Integers(20'000, 3), 5, 16, 20'000);
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
