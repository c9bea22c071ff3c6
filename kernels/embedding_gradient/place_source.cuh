// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/row_vector.cuh"
#include "ids/bag_layout.hpp"
#include "optimizer/optimizer_rows.cuh"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace msstream::ops::kernels {

/// Divides numbers below 2^31 by a divisor that the host knows before the launch, with a
/// multiplication (Granlund & Montgomery, Division by Invariant Integers using Multiplication,
/// 1994).
struct KnownDivisor {
  std::uint32_t multiplier;
  int shift;

  explicit KnownDivisor(std::int64_t divisor) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    auto const d = static_cast<std::uint64_t>(std::clamp<std::int64_t>(divisor, 1, kMost));
    shift = 31 + static_cast<int>(std::bit_width(d - 1));
    multiplier = static_cast<std::uint32_t>(((std::uint64_t{1} << shift) + d - 1) / d);
  }
  __device__ std::int32_t divide(std::int32_t number) const {
    return static_cast<std::int32_t>(static_cast<std::uint64_t>(number) * multiplier >> shift);
  }
};

/// The row of the output gradient that belongs to each position of the ids, and the factor by which
/// the row is multiplied.
struct PlaceSource {
  std::int32_t const* bags;  ///< [positions]: the row, -1 if nothing is added; null if computed
  float const* factors;      ///< [positions]; null if all are 1
  std::int32_t capacity;     ///< number of ids; later positions are one per bag, for its default id
  KnownDivisor hotness;      ///< ids per bag; 1 if nothing is pooled

  __device__ std::int32_t row_of(std::int32_t place) const {
    if (bags != nullptr) {
      return __ldg(bags + place);
    }
    return place < capacity ? hotness.divide(place) : place - capacity;
  }
  __device__ float factor_of(std::int32_t place) const {
    return factors != nullptr ? __ldg(factors + place) : 1.0F;
  }
};

/// The row of the output gradient that belongs to each position of the ids, found by searching the
/// position's bag: for so few positions that listing the rows first would cost more.
template <class Id>
struct SearchedSource {
  IdBags<Id> bags;

  __device__ std::int32_t row_of(std::int32_t place) const {
    return static_cast<std::int32_t>(bags.bag_of(place));
  }
  __device__ float factor_of(std::int32_t place) const { return bags.weight(place); }
};

namespace detail {

/// Loads four halves if `is_row`; otherwise returns zeros, and `from` may be any address. The load
/// is predicated: behind a branch it would be awaited, for the conversion to float, before the next
/// row's load begins.
template <class T>
__device__ PackedColumns<T, 4> load_four_halves_if(bool is_row, T const* from) {
  static_assert(sizeof(T) == 2);
  PackedColumns<T, 4> four;
  asm("{ .reg .pred p; setp.ne.u32 p, %3, 0; mov.u32 %0, 0; mov.u32 %1, 0;"
      "@p ld.global.nc.v2.u32 {%0, %1}, [%2]; }"
      : "=&r"(four.bits.x), "=&r"(four.bits.y)
      : "l"(from), "r"(unsigned{is_row}));
  return four;
}

}  // namespace detail

/// Loads four columns of the output gradient's row for a position. A sum takes all four columns; a
/// maximum takes only those columns whose maximum came from the position, and zeros otherwise.
/// load() requests the columns, and widened(), which is called after the loads of other rows, makes
/// floats of them.
template <class T, bool IsMax, bool IsWhole>
struct GradientRows {
  static constexpr bool kIsMax = IsMax;
  static constexpr std::int64_t kBytesAColumn = sizeof(T) + (IsMax ? sizeof(std::int32_t) : 0);
  static constexpr bool kIsPacked = IsWhole && !IsMax && sizeof(T) == 2;
  using Loaded = std::conditional_t<kIsPacked, PackedColumns<T, 4>, Columns<4>>;
  T const* gradient;
  std::int32_t const* argmax;
  std::int64_t width;

  __device__ Loaded load(std::int32_t row, std::int32_t place, std::int64_t column) const {
    auto const from = row * width + column;
    if constexpr (kIsPacked) {
      return detail::load_four_halves_if(row >= 0 && column < width, gradient + from);
    } else {
      Columns<4> columns;
      if (row < 0 || column >= width) {
        return columns;
      }
      if constexpr (IsWhole) {
        columns = load_columns<4>(gradient + from);
        if constexpr (IsMax) {
          auto const winners = __ldg(reinterpret_cast<int4 const*>(argmax + from));
          columns.at[0] = winners.x == place ? columns.at[0] : 0.0F;
          columns.at[1] = winners.y == place ? columns.at[1] : 0.0F;
          columns.at[2] = winners.z == place ? columns.at[2] : 0.0F;
          columns.at[3] = winners.w == place ? columns.at[3] : 0.0F;
        }
      } else {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          if (column + c < width && (!IsMax || __ldg(argmax + from + c) == place)) {
            columns.at[c] = load_columns<1>(gradient + from + c).at[0];
          }
        }
      }
      return columns;
    }
  }
  __device__ Columns<4> widened(Loaded const& loaded) const {
    if constexpr (kIsPacked) {
      return loaded.widened();
    } else {
      return loaded;
    }
  }
};

/// Loads four columns of a half-precision output gradient's row for a position, with one access.
/// The type is a number rather than a parameter, so that a rule has one kernel for both types.
struct HalfGradientRows {
  static constexpr bool kIsMax = false;
  static constexpr std::int64_t kBytesAColumn = 2;
  using Loaded = PackedColumns<bfloat16, 4>;
  void const* gradient;
  bool is_bfloat16;  ///< otherwise float16
  std::int64_t width;

  __device__ Loaded load(std::int32_t row, std::int32_t, std::int64_t column) const {
    auto const* const from = static_cast<bfloat16 const*>(gradient) + row * width + column;
    return detail::load_four_halves_if(row >= 0 && column < width, from);
  }
  __device__ Columns<4> widened(Loaded const& loaded) const {
    auto const of_bfloat16 = loaded.widened();
    auto const of_float16 = PackedColumns<float16, 4>{loaded.bits}.widened();
    Columns<4> columns;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      columns.at[c] = is_bfloat16 ? of_bfloat16.at[c] : of_float16.at[c];
    }
    return columns;
  }
};

}  // namespace msstream::ops::kernels
