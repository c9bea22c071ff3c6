// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding/tables.hpp"

#include <cuda_runtime.h>

#include <bit>
#include <climits>
#include <cstdint>

// The access of a lookup kernel to the descriptors of tables, and to the table that a tile belongs
// to.

namespace msstream::ops::kernels {

/// The most table descriptors that are passed as kernel parameters, which cost nothing to read.
inline constexpr int kInlineTables = 32;

struct InlineTables {
  TableDescriptor at[kInlineTables];
  std::int32_t first_tile[kInlineTables];  ///< INT_MAX if there is no table

  explicit InlineTables(TablesLookupArgs const& args) {
    auto const& tables = args.plan->tables;
    for (int t = 0; t < kInlineTables; ++t) {
      bool const exists = t < static_cast<int>(tables.size());
      at[t] = exists ? tables[t] : TableDescriptor{};
      first_tile[t] = exists ? at[t].first_tile[pools_all(args) ? 1 : 0] : INT_MAX;
    }
  }
  /// Returns the table of a tile, by comparisons with values in the constant cache instead of loads
  /// that depend on each other.
  __device__ int table_of(int tile) const {
    int table = -1;
#pragma unroll
    for (int t = 0; t < kInlineTables; ++t) {
      table += tile >= first_tile[t] ? 1 : 0;
    }
    return table;
  }
  __device__ TableDescriptor get(int table) const {
    return at[table];
  }
};

struct DeviceTables {
  TableDescriptor const* at;
  std::int32_t const* table_of_tile;

  explicit DeviceTables(TablesLookupArgs const& args)
      : at(args.tables),
        table_of_tile(args.table_of_tile + (pools_all(args) ? args.plan->fixed_tiles : 0)) {}

  __device__ int table_of(int tile) const { return __ldg(table_of_tile + tile); }
  __device__ TableDescriptor get(int table) const {
    struct Quarters {
      uint4 at[4];
    } quarters;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      quarters.at[q] = __ldg(reinterpret_cast<uint4 const*>(at + table) + q);
    }
    return std::bit_cast<TableDescriptor>(quarters);
  }
};

}  // namespace msstream::ops::kernels
