// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/float_conversions.cuh"
#include "optimizer/optimizer_math.hpp"
#include "optimizer/stochastic_rounding.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

// A kernel that updates tables is compiled for one of the two ways of rounding. Each has
//
//   OfTable     what the parameters of the kernel have of a table, in as few bytes as possible
//   at()        what rounds four neighbouring columns of a row, the first of which is a multiple of
//               four

/// Rounds weights to nearest, ties to even.
struct NearestRounding {
  static constexpr bool kIsStochastic = false;
  struct OfTable {
    explicit OfTable(RowRounding const&) {}
    OfTable() = default;
  };
  struct FourColumns {
    template <class Weight>
    __device__ Weight narrow(float weight, int) const {
      return narrowed<Weight>(weight);
    }
  };

  NearestRounding() = default;
  __device__ NearestRounding(OfTable const&, StepState const*) {}
  __device__ FourColumns at(std::int64_t, std::int64_t) const { return {}; }
};

/// Rounds weights of 16 bits stochastically, by the random bits of the table, the step, the row and
/// the column.
struct StochasticRounding {
  static constexpr bool kIsStochastic = true;
  struct OfTable {
    std::uint64_t key = 0;
    std::int64_t first_row = 0;
    explicit OfTable(RowRounding const& rounding)
        : key(rounding.key), first_row(rounding.first_row) {}
    OfTable() = default;
  };
  struct FourColumns {
    PhiloxWords words;
    template <class Weight>
    __device__ Weight narrow(float weight, int column) const {
      return stochastically_rounded<Weight>(weight, words.at[column]);
    }
  };
  OfTable table;
  std::int64_t step = 0;

  StochasticRounding() = default;
  __device__ StochasticRounding(OfTable const& of_table, StepState const* state)
      : table(of_table), step(step_of(state)) {}
  __device__ FourColumns at(std::int64_t row, std::int64_t column) const {
    return {rounding_words(table.key, step, table.first_row + row, column / 4)};
  }
};

}  // namespace msstream::ops::kernels
