// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/bag_view.hpp>
#include <msstream/ops/kernels/id_policy.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Rows of many tables that lie one behind the other: bag b is one of table b mod `tables`, and
/// rows[i] = first_rows[table] + the row within the table of ids[i].
///
/// That row is the id itself, or -1 with a report if the table does not have it; or, if `hashed`,
/// bucket_of(id, salt, rows of the table). Places that belong to no bag that exists are not
/// touched. With `ids_by_table` the ids of fixed hotness lie table by table, [tables, bags /
/// tables, hotness], and the rows sample by sample all the same.
struct TableRowsArgs {
  BagView bags;  ///< of int64 ids
  std::int64_t tables;
  std::int64_t const* first_rows;  ///< [tables + 1], ascending, on the device
  bool hashed;
  bool ids_by_table;
  std::uint64_t salt;
  IdReport report;
  std::int64_t* rows;  ///< [capacity]
};
void table_rows(HostStream stream, TableRowsArgs const& args);
void table_rows(CudaStream stream, TableRowsArgs const& args);

}  // namespace msstream::ops::kernels
