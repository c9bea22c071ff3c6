// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/step/sharded_tables.hpp>

#include <filesystem>
#include <source_location>

namespace msstream {

namespace detail {

// The implementations of the functions below, compiled once for all runtimes.

void save_sharded(std::filesystem::path const& path,
                  AnyShardedTables const& tables,
                  checkpoint::Tensors const& others,
                  checkpoint::Header const& header,
                  std::source_location issued_at);
checkpoint::Loaded load_sharded(std::filesystem::path const& path,
                                AnyShardedTables const& tables,
                                checkpoint::Tensors const& others,
                                checkpoint::LoadOptions const& options,
                                std::source_location issued_at);

}  // namespace detail

namespace checkpoint {

/// Saves tables that are in parts on several ranks as one file with whole tables, as save() writes
/// it for tables of Parameters: every number of ranks can load it by any plan, and so can programs
/// with one rank. All ranks call it. Rank 0 gathers the parts, one after the other, and writes the
/// file; the others need no access to it.
///
/// `others` has all other tensors of the rank, among them the optimizer that has the parts: of
/// these, the state of the parts is gathered too, and the rest, which must be equal on all ranks,
/// is that of rank 0. State with one number a row of a table that is column_wise on k ranks has the
/// shape [rows, k] in the file, which only k ranks can load, or {.except} leaves out.
///
/// Blocks the host until the file is complete; takes host memory of all tensors on rank 0, and
/// device memory of 16 MiB. Throws on all ranks if one fails: what save() throws on that rank, and
/// std::runtime_error with its message on the others. Throws std::invalid_argument on all ranks if
/// an optimizer in `others` has the part of one rank, and another rank's optimizer lacks its part.
template <Runtime R>
void save_sharded(std::filesystem::path const& path,
                  ShardedTables<R> const& tables,
                  Tensors const& others,
                  Header const& header = {},
                  std::source_location issued_at = std::source_location::current()) {
  detail::save_sharded(path, tables.any(), others, header, issued_at);
}

/// Loads the parts of this rank from a file with whole tables, which save_sharded() or save() has
/// written, and all tensors of `others`. All ranks call it, and all read the file, each only the
/// rows and columns that it has. The tables of the list, and the states of their optimizer, may be
/// divided in another way than when they were saved. `options` are those of load(), except for
/// rename, transposed, rows and averages, which throw std::invalid_argument.
///
/// Throws what load() throws, and then std::runtime_error with its message on the other ranks. If a
/// table does not fit on a rank, nothing is changed on any rank; if a tensor of `others` does not,
/// some ranks may have loaded theirs.
template <Runtime R>
Loaded load_sharded(std::filesystem::path const& path,
                    ShardedTables<R> const& tables,
                    Tensors const& others,
                    LoadOptions const& options = {},
                    std::source_location issued_at = std::source_location::current()) {
  return detail::load_sharded(path, tables.any(), others, options, issued_at);
}

}  // namespace checkpoint
}  // namespace msstream
