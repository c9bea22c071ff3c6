// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/checkpoint/tensors.hpp>
#include <msstream/step/sharded_tables.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::detail {

/// The place of a block of a matrix that one rank has, among the elements of the whole one.
struct SavedBlock {
  std::string name;  ///< of the whole tensor in the file
  DType dtype;
  std::vector<std::int64_t> shape;  ///< of the whole tensor, [rows, columns] or [rows]
  std::int64_t first_row;
  std::int64_t rows;
  std::int64_t first_column;
  std::int64_t columns;

  [[nodiscard]] std::int64_t whole_columns() const { return shape.size() > 1 ? shape[1] : 1; }
  [[nodiscard]] std::int64_t row_bytes() const {
    return columns * static_cast<std::int64_t>(bytes_of(dtype));
  }
  [[nodiscard]] std::int64_t whole_row_bytes() const {
    return whole_columns() * static_cast<std::int64_t>(bytes_of(dtype));
  }
  /// Returns the number of rows that are moved at once.
  [[nodiscard]] std::int64_t rows_at_once() const;
};
struct BlockOfRank {
  SavedBlock at;
  AnyTensor tensor;
};

/// Returns whether a tensor of a file or a list belongs to a table: is its weights, or the state
/// that an optimizer has for it.
[[nodiscard]] bool belongs_to(std::vector<TableSpec> const& tables, std::string_view name);
/// Returns the blocks that this rank has: its parts of the tables, and of `others` the states of
/// optimizers that have these parts.
[[nodiscard]] std::vector<BlockOfRank> blocks_of_rank(AnyShardedTables const& tables,
                                                      checkpoint::Tensors const& others);

/// Returns the blocks as JSON, for other ranks, and the blocks that a rank has told.
[[nodiscard]] std::string told(std::vector<BlockOfRank> const& blocks);
[[nodiscard]] std::vector<SavedBlock> understood(std::string const& text);

}  // namespace msstream::detail
