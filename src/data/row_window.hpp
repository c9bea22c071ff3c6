// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/batch.hpp>
#include <msstream/data/chunk.hpp>
#include <msstream/data/reader.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace msstream::data::detail {

/// Consecutive rows of an epoch that are shuffled among each other and divided into batches. Refers
/// to the chunks that the reader gave, without copying rows.
struct RowWindow {
  /// Rows of a chunk from `begin` on. The first of them is row number `first` of the window.
  struct Part {
    std::shared_ptr<Chunk const> chunk;
    std::int64_t begin;
    std::int64_t first;
    Reader::Position place = {};  ///< where the reader gave the chunk, if rows are in groups
  };
  std::vector<Part> parts;
  std::int64_t rows = 0;
  std::vector<std::uint32_t> order;  ///< the row at each place; empty if rows keep their order
  bool has_groups = false;           ///< whether rows are in groups that no batch may split
  /// The first row of each group.
  std::vector<std::uint32_t> groups;
  std::vector<std::uint32_t>
      starts;  ///< with groups, the place of the first row of each, ascending
  /// With groups, the first place of each rank's part of each batch, and the place behind the last.
  std::vector<std::uint32_t> cuts;
};

/// The rows of a batch: `count` rows of a window, from place `first` on.
struct BatchRows {
  std::int64_t first;
  std::int64_t count;
  std::int64_t shape_rows;  ///< that the columns get; those behind the copied ones are zero
  std::int64_t padding_id;  ///< of integers in these rows
  bool is_padded;           ///< shape_rows is that of a full batch
};

/// Copies rows of a window to `batch`, and the offsets of its groups if rows are in groups.
void gather(RowWindow const& window, BatchRows const& of_batch, StagedBatch& batch);

}  // namespace msstream::data::detail
