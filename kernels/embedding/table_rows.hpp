// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/id_report.hpp"
#include "ids/bag_view.hpp"

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Computes row numbers for ids of many tables whose rows are stored one after the other. Bag b
/// belongs to table b mod `tables`, and rows[i] = first_rows[table] + the row of ids[i] within its
/// table.
///
/// The row within the table is bucket_of(id, salt, rows of the table) if `hashed`. Otherwise it is
/// the id itself; if the table does not have that row, rows[i] is -1 and the id is reported. Rows
/// of ids that belong to no existing bag are not written. If `ids_by_table` is set, the ids of
/// fixed hotness are stored table by table, [tables, bags / tables, hotness], while `rows` is
/// stored sample by sample.
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
