// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "common/rounded.hpp"
#include "embedding/shard_columns.hpp"

#include <cstdint>

/// One element of the messages between ranks. The CPU and the CUDA implementation compute it by the
/// same operations.
namespace msstream::ops::kernels {

/// Returns an element of the early message of a rank, or of its late one; 0 in a bag without a row,
/// and where a place is not one that a rank writes.
MSSTREAM_HOST_DEVICE inline float split_element(JoinedColumnsArgs const& args,
                                                ColumnSource const& source,
                                                SplitSlot const& slot,
                                                std::int64_t row) {
  auto const* const early = args.messages + source.rank * args.stride;
  auto const place = RowPlace::of_float(early[slot.number_of(args.most_bags, row)]);
  auto const element = (place.is_late() ? 0 : slot.places(args.most_bags)) + place.element() +
                       source.column - slot.first_column;
  if (!place.has_row() || element >= (place.is_late() ? args.late_stride : args.stride)) {
    return 0.0F;
  }
  return place.is_late() ? args.late[source.rank * args.late_stride + element] : early[element];
}

MSSTREAM_HOST_DEVICE inline float joined_element(JoinedColumnsArgs const& args,
                                                 std::int64_t row,
                                                 std::int64_t column) {
  auto const first = args.first_sources[column];
  auto const last = args.first_sources[column + 1];
  Rounded sum{0.0F};
  for (auto i = first; i < last; ++i) {
    auto const source = args.sources[i];
    float const element = source.rank == args.ranks ? args.own[row * args.own_width + source.column]
                          : args.late != nullptr
                              ? split_element(args, source, args.source_slots[i], row)
                              : args.messages[source.rank * args.stride +
                                              row * args.widths[source.rank] + source.column];
    sum = i == first ? Rounded{element} : sum + Rounded{element};
  }
  auto const table = args.divisor_tables[column];
  if (table < 0) {
    return sum.value;
  }
  float const divisor = args.divisors[table * args.rows + row];
  return divisor == 0.0F ? 0.0F : (sum / Rounded{divisor}).value;
}

MSSTREAM_HOST_DEVICE inline float spread_element(SpreadColumnsArgs const& args,
                                                 std::int64_t rank,
                                                 std::int64_t element) {
  auto const width = args.widths[rank];
  auto const row = width > 0 ? element / width : args.rows;
  if (row >= args.rows) {
    return 0.0F;
  }
  auto const column = args.sources[args.first_columns[rank] + element % width];
  Rounded const gradient{args.gradient[row * args.columns + column]};
  Rounded const scale{args.scale};
  auto const table = args.divisor_tables[column];
  if (table < 0) {
    return (gradient * scale).value;
  }
  float const divisor = args.divisors[table * args.rows + row];
  return divisor == 0.0F ? 0.0F : (gradient / Rounded{divisor} * scale).value;
}

// Four neighbouring columns of several rows, with one access for each row: CUDA kernels read what
// describes the columns once for all of these rows. The elements are those of joined_element() and
// spread_element(), by the same operations.

inline constexpr int kColumnsOfQuad = 4;

/// `Count` neighbouring elements of a row, or one, that are read and written by one access.
template <int Count>
struct NeighbourColumns {
  static_assert(Count == 1 || Count == kColumnsOfQuad);

  float at[Count] = {};

  MSSTREAM_HOST_DEVICE static NeighbourColumns load(float const* from) {
    NeighbourColumns columns;
    read(from, columns.at);
    return columns;
  }
  MSSTREAM_HOST_DEVICE void store(float* to) const { write(at, to); }

 private:
  MSSTREAM_HOST_DEVICE static void read(float const* from, float (&to)[1]) { to[0] = from[0]; }
  MSSTREAM_HOST_DEVICE static void write(float const (&from)[1], float* to) { to[0] = from[0]; }
  MSSTREAM_HOST_DEVICE static void read(float const* from, float (&to)[kColumnsOfQuad]) {
#if defined(__CUDA_ARCH__)
    auto const quad = *reinterpret_cast<float4 const*>(from);
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
#else
    for (int c = 0; c < kColumnsOfQuad; ++c) {
      to[c] = from[c];
    }
#endif
  }
  MSSTREAM_HOST_DEVICE static void write(float const (&from)[kColumnsOfQuad], float* to) {
#if defined(__CUDA_ARCH__)
    *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
#else
    for (int c = 0; c < kColumnsOfQuad; ++c) {
      to[c] = from[c];
    }
#endif
  }
};

template <class... T>
[[nodiscard]] bool are_aligned_to_quads(T const*... pointers) {
  constexpr std::uintptr_t kBytes = kColumnsOfQuad * sizeof(float);
  return ((reinterpret_cast<std::uintptr_t>(pointers) % kBytes == 0) && ...);
}
[[nodiscard]] MSSTREAM_HOST_DEVICE constexpr bool is_whole_quads(std::int64_t columns) {
  return columns % kColumnsOfQuad == 0;
}

/// Returns whether any rows may be accessed by Quads (four columns). Null pointers pass.
[[nodiscard]] inline bool may_have_quads(JoinedColumnsArgs const& args) {
  return is_whole_quads(args.columns) && is_whole_quads(args.stride) &&
         is_whole_quads(args.late_stride) &&
         are_aligned_to_quads(args.messages, args.own, args.late, args.output);
}
[[nodiscard]] inline bool may_have_quads(SpreadColumnsArgs const& args) {
  return is_whole_quads(args.columns) && is_whole_quads(args.stride) &&
         are_aligned_to_quads(args.gradient, args.messages);
}

/// Returns whether the columns [column, column + 4) of an output have neighbouring sources and one
/// divisor, and the sources can be read by Quads, if may_have_quads(args). Of messages of late rows
/// that depends on the places of the rows too, which joined_columns_of() looks at.
[[nodiscard]] MSSTREAM_HOST_DEVICE inline bool is_joined_quad(JoinedColumnsArgs const& args,
                                                              std::int64_t column) {
  auto const first = args.first_sources[column];
  auto const count = args.first_sources[column + 1] - first;
  auto const table = args.divisor_tables[column];
  bool is_quad = true;
  for (int k = 1; k < kColumnsOfQuad; ++k) {
    // No operator &&, so that no load waits for another.
    is_quad = is_quad & (args.first_sources[column + k + 1] == first + (k + 1) * count) &
              (args.divisor_tables[column + k] == table);
  }
  for (std::int32_t i = 0; is_quad && i < count; ++i) {
    auto const source = args.sources[first + i];
    bool const is_own = source.rank == args.ranks;
    bool const is_split = !is_own && args.late != nullptr;
    if (is_own) {
      is_quad = is_whole_quads(args.own_width) && is_whole_quads(source.column);
    } else if (!is_split) {
      is_quad = is_whole_quads(args.widths[source.rank]) && is_whole_quads(source.column);
    }
    for (int k = 1; k < kColumnsOfQuad; ++k) {
      auto const at = first + k * count + i;
      auto const other = args.sources[at];
      is_quad = is_quad & (other.rank == source.rank) & (other.column == source.column + k);
      if (is_split) {
        auto const slot = args.source_slots[first + i];
        auto const other_slot = args.source_slots[at];
        is_quad = is_quad & (other_slot.slot == slot.slot) & (other_slot.slots == slot.slots) &
                  (other_slot.first_column == slot.first_column);
      }
    }
  }
  return is_quad;
}

/// Returns the elements of neighbouring columns, whose sources from `source` on are neighbours too,
/// in messages that are split into early and late ones.
template <int Count, int Rows>
MSSTREAM_HOST_DEVICE void load_split_columns(JoinedColumnsArgs const& args,
                                             ColumnSource const& source,
                                             SplitSlot const& slot,
                                             std::int64_t const (&rows)[Rows],
                                             NeighbourColumns<Count> (&elements)[Rows]) {
  auto const* const early = args.messages + source.rank * args.stride;
  auto const* const late = args.late + source.rank * args.late_stride;
  float const* from[Rows];
  bool are_whole = true;
  for (int r = 0; r < Rows; ++r) {
    auto const place = RowPlace::of_float(early[slot.number_of(args.most_bags, rows[r])]);
    auto const element = (place.is_late() ? 0 : slot.places(args.most_bags)) + place.element() +
                         source.column - slot.first_column;
    bool const fits = element + Count <= (place.is_late() ? args.late_stride : args.stride);
    from[r] = place.has_row() && fits ? (place.is_late() ? late : early) + element : nullptr;
    // If may_have_quads(args), a message ends behind a whole Quad.
    are_whole = are_whole && (Count == 1 || !place.has_row() || element % Count == 0);
  }
  if (are_whole) {
    for (int r = 0; r < Rows; ++r) {
      elements[r] = {};
      if (from[r] != nullptr) {
        elements[r] = NeighbourColumns<Count>::load(from[r]);
      }
    }
    return;
  }
  for (int r = 0; r < Rows; ++r) {
    for (int c = 0; c < Count; ++c) {
      elements[r].at[c] = split_element(args, {source.rank, source.column + c}, slot, rows[r]);
    }
  }
}

/// Computes joined_element() of the columns [column, column + Count) of several rows. With more
/// than one column, is_joined_quad() must be true for them. `IsSplit` tells whether there are
/// messages of late rows.
template <bool IsSplit, int Count, int Rows>
MSSTREAM_HOST_DEVICE void joined_columns_of(JoinedColumnsArgs const& args,
                                            std::int64_t column,
                                            std::int64_t const (&rows)[Rows],
                                            NeighbourColumns<Count> (&sums)[Rows]) {
  auto const first = args.first_sources[column];
  auto const last = args.first_sources[column + 1];
  auto const table = args.divisor_tables[column];
  float divisors[Rows] = {};
  if (table >= 0) {
    for (int r = 0; r < Rows; ++r) {
      divisors[r] = args.divisors[table * args.rows + rows[r]];
    }
  }
  for (int r = 0; r < Rows; ++r) {
    sums[r] = {};
  }
  for (auto i = first; i < last; ++i) {
    auto const source = args.sources[i];
    NeighbourColumns<Count> elements[Rows];
    if (IsSplit && source.rank != args.ranks) {
      load_split_columns(args, source, args.source_slots[i], rows, elements);
    } else {
      bool const is_own = source.rank == args.ranks;
      auto const* const from =
          (is_own ? args.own : args.messages + source.rank * args.stride) + source.column;
      auto const width = is_own ? args.own_width : args.widths[source.rank];
      for (int r = 0; r < Rows; ++r) {
        elements[r] = NeighbourColumns<Count>::load(from + rows[r] * width);
      }
    }
    for (int r = 0; r < Rows; ++r) {
      for (int c = 0; c < Count; ++c) {
        Rounded const element{elements[r].at[c]};
        sums[r].at[c] = i == first ? element.value : (Rounded{sums[r].at[c]} + element).value;
      }
    }
  }
  if (table >= 0) {
    for (int r = 0; r < Rows; ++r) {
      for (int c = 0; c < Count; ++c) {
        sums[r].at[c] =
            divisors[r] == 0.0F ? 0.0F : (Rounded{sums[r].at[c]} / Rounded{divisors[r]}).value;
      }
    }
  }
}

/// Returns whether the elements from `element`, a multiple of four, on of the rows in a rank's
/// message have neighbouring columns as sources and one divisor, and can be accessed by Quads, if
/// may_have_quads(args).
[[nodiscard]] MSSTREAM_HOST_DEVICE inline bool is_spread_quad(SpreadColumnsArgs const& args,
                                                              std::int64_t rank,
                                                              std::int64_t element) {
  if (!is_whole_quads(args.widths[rank])) {
    return false;
  }
  auto const* const sources = args.sources + args.first_columns[rank] + element;
  auto const column = sources[0];
  auto const table = args.divisor_tables[column];
  bool is_quad = is_whole_quads(column);
  for (int k = 1; k < kColumnsOfQuad; ++k) {
    is_quad = is_quad & (sources[k] == column + k);
  }
  if (is_quad) {
    for (int k = 1; k < kColumnsOfQuad; ++k) {
      is_quad = is_quad & (args.divisor_tables[column + k] == table);
    }
  }
  return is_quad;
}

/// Computes spread_element() of the elements [element, element + Count) of several rows, less than
/// args.rows, in a rank's message. With more than one element, is_spread_quad() must be true for
/// them.
template <int Count, int Rows>
MSSTREAM_HOST_DEVICE void spread_columns_of(SpreadColumnsArgs const& args,
                                            std::int64_t rank,
                                            std::int64_t element,
                                            std::int64_t const (&rows)[Rows],
                                            NeighbourColumns<Count> (&gradients)[Rows]) {
  auto const column = args.sources[args.first_columns[rank] + element];
  auto const table = args.divisor_tables[column];
  Rounded const scale{args.scale};
  float divisors[Rows] = {};
  for (int r = 0; r < Rows; ++r) {
    if (table >= 0) {
      divisors[r] = args.divisors[table * args.rows + rows[r]];
    }
    gradients[r] = NeighbourColumns<Count>::load(args.gradient + rows[r] * args.columns + column);
  }
  for (int r = 0; r < Rows; ++r) {
    for (int c = 0; c < Count; ++c) {
      Rounded const gradient{gradients[r].at[c]};
      gradients[r].at[c] = table < 0             ? (gradient * scale).value
                           : divisors[r] == 0.0F ? 0.0F
                                                 : (gradient / Rounded{divisors[r]} * scale).value;
    }
  }
}

}  // namespace msstream::ops::kernels
