// SPDX-License-Identifier: Apache-2.0
#include "embedding/shard_columns.hpp"

#include "embedding/shard_column_math.hpp"
#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <bit>
#include <tuple>

namespace msstream::ops::kernels::testing {
namespace {

/// A block of columns of a table, which a rank has.
struct ColumnBlock {
  std::int32_t rank;
  std::int64_t columns;
};
/// A table by its blocks of columns, or, if it is divided by rows, with all columns on all ranks.
struct DividedTable {
  std::vector<ColumnBlock> blocks;
  bool is_by_rows = false;
  bool is_divided = false;
};
struct ColumnsCase {
  char const* name;
  std::int32_t ranks;
  std::int64_t rows;
  std::int64_t most_bags;
  std::vector<DividedTable> tables;
  std::int64_t own_width = 0;  ///< of a last table, whose rows the rank has looked up itself
  std::int64_t offset = 0;     ///< floats before the arrays, which are not aligned then
};
std::vector<ColumnsCase> columns_cases() {
  return {
      {"wide tables", 2, 37, 40, {{{{0, 128}}}, {{{1, 128}}}, {{{0, 128}}}}},
      {"one rank", 1, 9, 9, {{{{0, 16}}}, {{{0, 256}}}, {{{0, 96}}}}},
      {"mixed widths", 3, 21, 24, {{{{1, 1}}}, {{{0, 7}}}, {{{2, 16}}}, {{{0, 32}}}, {{{1, 96}}}}},
      {"mixed widths of whole quads", 2, 5, 8, {{{{1, 1}}}, {{{0, 7}}}, {{{0, 16}}}, {{{1, 32}}}}},
      {"columns of a table", 2, 33, 36, {{{{0, 8}, {1, 24}}}, {{{0, 6}, {1, 10}}}, {{{1, 4}}}}},
      {"rows of a table", 4, 35, 36, {{{}, true, true}, {{{2, 8}}}, {{}, true}}},
      {"divided sums", 2, 18, 20, {{{{0, 32}}}, {{}, true, true}, {{{1, 12}}, false, true}}},
      {"own rows", 2, 11, 12, {{{{0, 32}}}, {{{1, 16}}}}, 20},
      {"own rows of odd width", 2, 11, 12, {{{{0, 32}}}, {{{1, 15}}}}, 17},
      {"no rows", 2, 0, 4, {{{{0, 8}}}, {{{1, 8}}}}},
      {"unaligned", 2, 19, 20, {{{{0, 32}}}, {{{1, 32}}}}, 8, 1},
      {"many rows", 2, 20'011, 20'012, {{{{0, 4}}}, {{{1, 4}}}}},
      {"a rank without tables", 3, 13, 16, {{{{0, 64}}}, {{{2, 16}}}}},
      {"messages longer than their rows", 2, 10, 17, {{{{0, 40}}}, {{{1, 8}}}}},
      {"two ranks in a quad", 2, 7, 8, {{{{0, 2}, {1, 2}}}, {{{0, 2}, {1, 2}}}}},
      {"two tables in a quad", 2, 7, 8, {{{{0, 2}}}, {{{0, 2}}}, {{{1, 4}}}}},
      {"two divisors in a quad", 2, 7, 8, {{{{0, 2}}, false, true}, {{{0, 2}}}, {{{1, 4}}}}},
      {"odd samples", 2, 10, 11, {{{{0, 8}}}, {{{1, 8}}}}},
  };
}

/// The arrays that describe the columns of a case.
struct ColumnsLayout {
  std::int64_t columns = 0;
  std::int64_t widest = 0;
  std::int64_t divided = 0;  ///< tables
  std::vector<std::int64_t> widths;
  std::vector<std::vector<SplitSlot>> slots;  ///< of the columns of each rank
  std::vector<ColumnSource> sources;
  std::vector<SplitSlot> source_slots;
  std::vector<std::int32_t> first_sources{0};
  std::vector<std::int32_t> divisor_tables;
  std::vector<std::int32_t> gradient_sources;
  std::vector<std::int64_t> first_columns;

  explicit ColumnsLayout(ColumnsCase const& of) {
    constexpr std::int64_t kByRows = 12;
    auto const ranks = static_cast<std::size_t>(of.ranks);
    widths.resize(ranks);
    slots.resize(ranks);
    std::vector<std::vector<std::int32_t>> of_ranks(ranks);
    std::vector<std::int32_t> counts(ranks);
    auto const add = [&](std::int32_t rank, std::int64_t first, std::int64_t count) {
      auto const r = static_cast<std::size_t>(rank);
      for (std::int64_t c = 0; c < count; ++c) {
        slots[r].push_back({counts[r], 0, static_cast<std::int32_t>(widths[r])});
        of_ranks[r].push_back(static_cast<std::int32_t>(first + c));
      }
      ++counts[r];
      widths[r] += count;
    };
    for (auto const& table : of.tables) {
      auto const divisor = table.is_divided ? static_cast<std::int32_t>(divided++) : -1;
      auto const end = [&](std::int64_t count) {
        columns += count;
        divisor_tables.resize(static_cast<std::size_t>(columns), divisor);
      };
      if (!table.is_by_rows) {
        for (auto const& block : table.blocks) {
          for (std::int64_t c = 0; c < block.columns; ++c) {
            sources.push_back(
                {block.rank,
                 static_cast<std::int32_t>(widths[static_cast<std::size_t>(block.rank)] + c)});
            first_sources.push_back(static_cast<std::int32_t>(sources.size()));
          }
          add(block.rank, columns, block.columns);
          end(block.columns);
        }
        continue;
      }
      for (std::int64_t c = 0; c < kByRows; ++c) {
        for (std::int32_t r = 0; r < of.ranks; ++r) {
          sources.push_back(
              {r, static_cast<std::int32_t>(widths[static_cast<std::size_t>(r)] + c)});
        }
        first_sources.push_back(static_cast<std::int32_t>(sources.size()));
      }
      for (std::int32_t r = 0; r < of.ranks; ++r) {
        add(r, columns, kByRows);
      }
      end(kByRows);
    }
    for (std::int64_t c = 0; c < of.own_width; ++c) {
      sources.push_back({of.ranks, static_cast<std::int32_t>(c)});
      first_sources.push_back(static_cast<std::int32_t>(sources.size()));
    }
    columns += of.own_width;
    divisor_tables.resize(static_cast<std::size_t>(columns), -1);
    widest = *std::ranges::max_element(widths);
    for (std::size_t r = 0; r < ranks; ++r) {
      for (auto& slot : slots[r]) {
        slot.slots = counts[r];
      }
      first_columns.push_back(static_cast<std::int64_t>(gradient_sources.size()));
      gradient_sources.insert(gradient_sources.end(), of_ranks[r].begin(), of_ranks[r].end());
    }
    for (auto const& source : sources) {
      source_slots.push_back(source.rank == of.ranks
                                 ? SplitSlot{}
                                 : slots[static_cast<std::size_t>(source.rank)]
                                        [static_cast<std::size_t>(source.column)]);
    }
  }
};

[[nodiscard]] std::vector<std::uint32_t> bits_of_floats(std::vector<float> const& floats) {
  std::vector<std::uint32_t> bits;
  for (float const value : floats) {
    bits.push_back(std::bit_cast<std::uint32_t>(value));
  }
  return bits;
}

/// Writes the columns of all rows as a CUDA kernel does: those of a quad together if they can be,
/// several rows at once. Returns how many quads there were.
template <int Rows, bool IsSplit>
std::int64_t join_by_quads(JoinedColumnsArgs const& args) {
  std::int64_t quads = 0;
  auto const by = [&]<int Count>(std::int64_t column, NeighbourColumns<Count>) {
    for (std::int64_t row = 0; row < args.rows; row += Rows) {
      std::int64_t rows[Rows];
      for (int r = 0; r < Rows; ++r) {
        rows[r] = std::min(row + r, args.rows - 1);
      }
      NeighbourColumns<Count> sums[Rows];
      joined_columns_of<IsSplit>(args, column, rows, sums);
      for (int r = 0; r < Rows; ++r) {
        sums[r].store(args.output + rows[r] * args.columns + column);
      }
    }
  };
  for (std::int64_t column = 0; column < args.columns; column += kColumnsOfQuad) {
    if (may_have_quads(args) && is_joined_quad(args, column)) {
      by(column, NeighbourColumns<kColumnsOfQuad>());
      ++quads;
      continue;
    }
    for (auto c = column; c < std::min(column + kColumnsOfQuad, args.columns); ++c) {
      by(c, NeighbourColumns<1>());
    }
  }
  return quads;
}

/// Writes the rows of all messages as a CUDA kernel does, with no element behind them.
template <int Rows>
void spread_by_quads(SpreadColumnsArgs const& args) {
  auto const by = [&]<int Count>(std::int64_t rank, std::int64_t element, NeighbourColumns<Count>) {
    for (std::int64_t row = 0; row < args.rows; row += Rows) {
      std::int64_t rows[Rows];
      for (int r = 0; r < Rows; ++r) {
        rows[r] = std::min(row + r, args.rows - 1);
      }
      NeighbourColumns<Count> gradients[Rows];
      spread_columns_of(args, rank, element, rows, gradients);
      for (int r = 0; r < Rows; ++r) {
        gradients[r].store(args.messages + rank * args.stride + rows[r] * args.widths[rank] +
                           element);
      }
    }
  };
  for (std::int64_t rank = 0; rank < args.ranks; ++rank) {
    auto const width = args.widths[rank];
    std::fill_n(args.messages + rank * args.stride, args.rows * width, -2.0F);
    for (std::int64_t element = 0; element < width; element += kColumnsOfQuad) {
      if (may_have_quads(args) && is_spread_quad(args, rank, element)) {
        by(rank, element, NeighbourColumns<kColumnsOfQuad>());
        continue;
      }
      for (auto e = element; e < std::min(element + kColumnsOfQuad, width); ++e) {
        by(rank, e, NeighbourColumns<1>());
      }
    }
  }
}

/// Messages from all ranks, and the rows that they have, by rank and sample; 0 where there is
/// none.
struct RowMessages {
  std::vector<float> early;
  std::vector<float> late;
  std::vector<std::vector<float>> rows;
  std::int64_t stride = 0;
  std::int64_t late_stride = 0;
};

[[nodiscard]] std::vector<float> joined_rows(ColumnsCase const& of,
                                             ColumnsLayout const& layout,
                                             std::vector<std::vector<float>> const& rows,
                                             std::vector<float> const& own,
                                             std::vector<float> const& divisors) {
  std::vector<float> expected;
  for (std::int64_t row = 0; row < of.rows; ++row) {
    for (std::size_t column = 0; column < static_cast<std::size_t>(layout.columns); ++column) {
      float sum = 0;
      for (auto i = layout.first_sources[column]; i < layout.first_sources[column + 1]; ++i) {
        auto const source = layout.sources[static_cast<std::size_t>(i)];
        auto const rank = static_cast<std::size_t>(source.rank);
        auto const& of_source = source.rank == of.ranks ? own : rows[rank];
        auto const width = source.rank == of.ranks ? of.own_width : layout.widths[rank];
        auto const element = of_source[static_cast<std::size_t>(row * width + source.column)];
        sum = i == layout.first_sources[column] ? element : sum + element;
      }
      if (auto const table = layout.divisor_tables[column]; table >= 0) {
        auto const divisor = divisors[static_cast<std::size_t>(table * of.rows + row)];
        sum = divisor == 0.0F ? 0.0F : sum / divisor;
      }
      expected.push_back(sum);
    }
  }
  return expected;
}

/// Returns how many groups of four columns of an output can be accessed together.
[[nodiscard]] std::int64_t expected_quads(ColumnsCase const& of,
                                          ColumnsLayout const& layout,
                                          RowMessages const& sent,
                                          bool is_split) {
  if (of.offset != 0 || layout.columns % 4 != 0 || sent.stride % 4 != 0 ||
      sent.late_stride % 4 != 0) {
    return 0;
  }
  std::int64_t quads = 0;
  for (std::int64_t column = 0; column < layout.columns; column += 4) {
    std::vector<std::vector<std::tuple<std::int32_t, std::int32_t, std::int32_t>>> of_columns;
    bool is_aligned = true;
    for (std::int64_t c = column; c < column + 4; ++c) {
      auto const at = static_cast<std::size_t>(c);
      auto& all = of_columns.emplace_back();
      all.emplace_back(layout.divisor_tables[at], 0, 0);
      for (auto i = layout.first_sources[at]; i < layout.first_sources[at + 1]; ++i) {
        auto const source = layout.sources[static_cast<std::size_t>(i)];
        auto const slot = layout.source_slots[static_cast<std::size_t>(i)].slot;
        bool const is_own = source.rank == of.ranks;
        auto const back = static_cast<std::int32_t>(c - column);
        all.emplace_back(source.rank, source.column - back, is_split && !is_own ? slot : 0);
        auto const width =
            is_own ? of.own_width : layout.widths[static_cast<std::size_t>(source.rank)];
        is_aligned = is_aligned &&
                     ((is_split && !is_own) || (width % 4 == 0 && (source.column - back) % 4 == 0));
      }
    }
    bool const is_quad = is_aligned && std::ranges::all_of(of_columns, [&](auto const& all) {
                           return all == of_columns[0];
                         });
    quads += is_quad ? 1 : 0;
  }
  return quads;
}

template <class Stream>
class ShardColumnsTest : public KernelTest<Stream> {
 protected:
  /// Returns floats in memory that begins with `offset` others.
  Buffer<float> placed(std::vector<float> values, std::int64_t offset) {
    auto const count = static_cast<std::int64_t>(values.size());
    values.insert(values.begin(), static_cast<std::size_t>(offset), 0.0F);
    return this->upload(values).slice(offset, count);
  }
  /// Returns memory of `count` floats at an address that Quads have, or `offset` floats behind one.
  GuardedOutput aligned(std::int64_t count, std::int64_t offset) {
    return this->guarded(count, kColumnsOfQuad + offset);
  }
  /// Returns messages with the rows of all samples.
  RowMessages messages(ColumnsCase const& of, ColumnsLayout const& layout) {
    auto const stride = of.most_bags * layout.widest;
    RowMessages sent{this->random.reals(of.ranks * stride), {}, {}, stride, 0};
    for (std::int64_t rank = 0; rank < of.ranks; ++rank) {
      auto const first = sent.early.begin() + rank * stride;
      sent.rows.emplace_back(first, first + stride);
    }
    return sent;
  }
  /// Returns messages of which each has the rows of some bags, in the order of slots and bags. Some
  /// bags have no row, and the places of some are such as no rank writes.
  RowMessages split_messages(ColumnsCase const& of, ColumnsLayout const& layout) {
    RowMessages sent;
    sent.late_stride = of.most_bags * layout.widest;
    for (auto const& slots : layout.slots) {
      auto const count = slots.empty() ? 0 : slots.front().slots;
      sent.stride = std::max(sent.stride, of.most_bags * (count + std::ssize(slots)));
    }
    sent.early = this->random.reals(of.ranks * sent.stride);
    sent.late = this->random.reals(of.ranks * sent.late_stride);
    for (std::size_t rank = 0; rank < layout.slots.size(); ++rank) {
      auto const& columns = layout.slots[rank];
      auto const width = std::ssize(columns);
      auto* const early = sent.early.data() + static_cast<std::int64_t>(rank) * sent.stride;
      auto* const late = sent.late.data() + static_cast<std::int64_t>(rank) * sent.late_stride;
      auto& rows = sent.rows.emplace_back(static_cast<std::size_t>(of.most_bags * width));
      std::int64_t ends[2] = {};
      for (std::int64_t first = 0; first < width;) {
        auto const slot = columns[static_cast<std::size_t>(first)];
        std::int64_t count = 0;
        while (first + count < width &&
               columns[static_cast<std::size_t>(first + count)].slot == slot.slot) {
          ++count;
        }
        for (std::int64_t bag = 0; bag < of.most_bags; ++bag) {
          auto const kind = this->random.integer(0, 9);
          auto& place = early[slot.number_of(of.most_bags, bag)];
          if (kind == 0) {
            place = RowPlace().as_float();
            continue;
          }
          bool const is_late = kind % 2 != 0;
          if (kind == 2 || kind == 3) {  // the message ends behind one column, or before the row
            auto const all = is_late ? sent.late_stride : sent.stride - slot.places(of.most_bags);
            auto const kept = this->random.integer(0, 1);
            place = RowPlace(is_late, all - kept).as_float();
            if (kept > 0) {
              rows[static_cast<std::size_t>(bag * width + first)] =
                  is_late ? late[all - 1] : early[sent.stride - 1];
            }
            continue;
          }
          auto& end = ends[is_late ? 1 : 0];
          place = RowPlace(is_late, end).as_float();
          auto const* const from = is_late ? late : early + slot.places(of.most_bags);
          std::copy_n(
              from + end, count, rows.begin() + static_cast<std::ptrdiff_t>(bag * width + first));
          end += count;
        }
        first += count;
      }
    }
    return sent;
  }
  /// Returns divisors, some of which are 0.
  std::vector<float> divisors(std::int64_t count) {
    std::vector<float> divisors;
    for (std::int64_t i = 0; i < count; ++i) {
      divisors.push_back(static_cast<float>(this->random.integer(0, 5)));
    }
    return divisors;
  }
};
TYPED_TEST_SUITE(ShardColumnsTest, StreamKinds, StreamKindName);

TYPED_TEST(ShardColumnsTest, joined_columns_are_the_sums_of_their_sources) {
  for (auto const& of : columns_cases()) {
    for (bool const is_split : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", of.name, is_split ? ", early and late" : ""));
      ColumnsLayout const layout(of);
      auto const sent = is_split ? this->split_messages(of, layout) : this->messages(of, layout);
      auto const own = this->random.reals(of.rows * of.own_width);
      auto const divisors = this->divisors(layout.divided * of.rows);
      auto const expected = joined_rows(of, layout, sent.rows, own, divisors);
      auto const output = this->aligned(std::ssize(expected), of.offset);
      auto const uploaded = std::tuple(this->placed(sent.early, of.offset),
                                       this->placed(sent.late, of.offset),
                                       this->placed(own, of.offset),
                                       this->upload(layout.widths),
                                       this->upload(layout.sources),
                                       this->upload(layout.source_slots),
                                       this->upload(layout.first_sources),
                                       this->upload(layout.divisor_tables),
                                       this->upload(divisors));
      JoinedColumnsArgs const args{.messages = std::get<0>(uploaded).data(),
                                   .widths = std::get<3>(uploaded).data(),
                                   .stride = sent.stride,
                                   .own = std::get<2>(uploaded).data(),
                                   .own_width = of.own_width,
                                   .ranks = of.ranks,
                                   .sources = std::get<4>(uploaded).data(),
                                   .first_sources = std::get<6>(uploaded).data(),
                                   .divisor_tables = std::get<7>(uploaded).data(),
                                   .divisors = std::get<8>(uploaded).data(),
                                   .rows = of.rows,
                                   .columns = layout.columns,
                                   .output = output.data(),
                                   .late = is_split ? std::get<1>(uploaded).data() : nullptr,
                                   .late_stride = sent.late_stride,
                                   .source_slots = std::get<5>(uploaded).data(),
                                   .most_bags = of.most_bags};
      joined_columns(this->stream(), args);
      EXPECT_EQ(bits_of_floats(this->read(output)), bits_of_floats(expected));
      if constexpr (std::is_same_v<TypeParam, HostStream>) {
        this->poison(output.memory);
        auto const quads = is_split ? join_by_quads<4, true>(args) : join_by_quads<4, false>(args);
        EXPECT_EQ(bits_of_floats(this->read(output)), bits_of_floats(expected)) << "by quads";
        EXPECT_EQ(quads, expected_quads(of, layout, sent, is_split));
      }
    }
  }
}

TYPED_TEST(ShardColumnsTest, spread_columns_fill_whole_messages) {
  for (auto const& of : columns_cases()) {
    SCOPED_TRACE(of.name);
    ColumnsLayout const layout(of);
    auto const stride = of.most_bags * layout.widest;
    auto const gradient = this->random.reals(of.rows * layout.columns);
    auto const divisors = this->divisors(layout.divided * of.rows);
    float const scale = this->random.real();
    std::vector<float> expected(static_cast<std::size_t>(of.ranks * stride));
    for (std::size_t rank = 0; rank < layout.widths.size(); ++rank) {
      auto const width = layout.widths[rank];
      for (std::int64_t i = 0; i < of.rows * width; ++i) {
        auto const row = i / width;
        auto const column =
            layout
                .gradient_sources[static_cast<std::size_t>(layout.first_columns[rank] + i % width)];
        auto value = gradient[static_cast<std::size_t>(row * layout.columns + column)];
        auto const table = layout.divisor_tables[static_cast<std::size_t>(column)];
        if (table >= 0) {
          auto const divisor = divisors[static_cast<std::size_t>(table * of.rows + row)];
          value = divisor == 0.0F ? 0.0F : value / divisor * scale;
        } else {
          value *= scale;
        }
        expected[rank * static_cast<std::size_t>(stride) + static_cast<std::size_t>(i)] = value;
      }
    }
    auto const messages = this->aligned(std::ssize(expected), of.offset);
    auto const uploaded = std::tuple(this->placed(gradient, of.offset),
                                     this->upload(layout.widths),
                                     this->upload(layout.first_columns),
                                     this->upload(layout.gradient_sources),
                                     this->upload(layout.divisor_tables),
                                     this->upload(divisors));
    SpreadColumnsArgs const args{.gradient = std::get<0>(uploaded).data(),
                                 .rows = of.rows,
                                 .columns = layout.columns,
                                 .ranks = of.ranks,
                                 .most_bags = of.most_bags,
                                 .widths = std::get<1>(uploaded).data(),
                                 .first_columns = std::get<2>(uploaded).data(),
                                 .sources = std::get<3>(uploaded).data(),
                                 .divisor_tables = std::get<4>(uploaded).data(),
                                 .divisors = std::get<5>(uploaded).data(),
                                 .scale = scale,
                                 .messages = messages.data(),
                                 .stride = stride};
    spread_columns(this->stream(), args);
    EXPECT_EQ(bits_of_floats(this->read(messages)), bits_of_floats(expected));
    if constexpr (std::is_same_v<TypeParam, HostStream>) {
      spread_by_quads<4>(args);
      EXPECT_EQ(bits_of_floats(this->read(messages)), bits_of_floats(expected)) << "by quads";
    }
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
