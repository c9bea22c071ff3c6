// SPDX-License-Identifier: Apache-2.0
#include "elementwise/elementwise.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/matrix.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <vector>

namespace msstream::ops::detail {

Floats concat(std::vector<Floats> const& blocks, std::source_location issued_at) {
  require(!blocks.empty(), "concat: no blocks");
  std::int64_t width = 0;
  std::vector<kernels::ColumnBlock> columns;
  for (auto const& block : blocks) {
    require(block.shape().rank() == 2 && block.shape()[0] == blocks.front().shape()[0],
            "concat: block of shape {} beside one of shape {}",
            block.shape(),
            blocks.front().shape());
    columns.push_back({block.data(), block.shape()[1]});
    width += block.shape()[1];
  }
  std::int64_t const rows = blocks.front().shape()[0];
  Floats packed(blocks.front().device(), {rows, width});
  issue(
      "concat",
      reads(blocks),
      writes(packed),
      [columns = std::move(columns), rows, target = packed.data()](auto stream) {
        kernels::concat_columns(stream, columns, rows, target);
      },
      {},
      issued_at);
  return packed;
}

Floats unpacked(Floats const& packed,
                std::span<std::int64_t const> widths,
                std::source_location issued_at) {
  require(packed.shape().rank() == 2, "split of a tensor of shape {}", packed.shape());
  std::int64_t const rows = packed.shape()[0];
  Floats blocks(packed.device(), {packed.count()});
  std::int64_t total = 0;
  std::vector<kernels::ColumnBlock> columns;
  for (auto const width : widths) {
    require(width >= 0, "split: a block of width {}", width);
    require(total + width <= packed.shape()[1],
            "split: widths sum to more than {} for a tensor of shape {}",
            packed.shape()[1],
            packed.shape());
    columns.push_back({blocks.data() + total * rows, width});
    total += width;
  }
  require(total == packed.shape()[1],
          "split: widths sum to {} for a tensor of shape {}",
          total,
          packed.shape());
  issue(
      "split",
      reads(packed),
      writes(blocks),
      [columns = std::move(columns), rows, source = packed.data()](auto stream) {
        kernels::split_columns(stream, source, columns, rows);
      },
      {},
      issued_at);
  return blocks;
}

std::vector<std::optional<Floats>> split(Floats const& packed,
                                         std::span<std::int64_t const> widths,
                                         std::vector<bool> const& wanted,
                                         std::source_location issued_at) {
  require(packed.shape().rank() == 2 && wanted.size() == widths.size(),
          "split of a tensor of shape {}",
          packed.shape());
  std::int64_t const rows = packed.shape()[0];
  std::int64_t total = 0;
  std::vector<std::optional<Floats>> blocks;
  std::vector<Floats> written;
  std::vector<kernels::ColumnBlock> columns;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    require(widths[i] >= 0, "split: a block of width {}", widths[i]);
    blocks.emplace_back();
    if (wanted[i]) {
      written.push_back(blocks.back().emplace(packed.device(), Shape{rows, widths[i]}));
    }
    columns.push_back({wanted[i] ? written.back().data() : nullptr, widths[i]});
    total += widths[i];
  }
  require(total == packed.shape()[1],
          "split: widths sum to {} for a tensor of shape {}",
          total,
          packed.shape());
  if (!written.empty()) {
    issue(
        "split",
        reads(packed),
        writes(written),
        [columns = std::move(columns), rows, source = packed.data()](auto stream) {
          kernels::split_columns(stream, source, columns, rows);
        },
        {},
        issued_at);
  }
  return blocks;
}

}  // namespace msstream::ops::detail
