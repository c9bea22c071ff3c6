// SPDX-License-Identifier: Apache-2.0
#include "embedding/gather.hpp"

#include "ops/common/count_of.hpp"
#include "ops/common/id_array.hpp"
#include "ops/common/row_bytes.hpp"
#include "ops/common/workspace.hpp"
#include "ops/embedding/embedding.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/ops/bags.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/ops/gather.hpp>
#include <msstream/tensor/detail/overlap.hpp>
#include <msstream/tensor/issue.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>

namespace msstream::ops::detail {
namespace {

/// Returns `shape` with an additional last dimension of the given extent. Throws
/// std::invalid_argument if the rank would exceed Shape::kMaxRank.
Shape with_last(char const* operation, Shape const& shape, std::int64_t extent) {
  require(shape.rank() < Shape::kMaxRank,
          "{}: ids of shape {}; expected at most {} dimensions",
          operation,
          shape,
          Shape::kMaxRank - 1);
  std::array<std::int64_t, Shape::kMaxRank> extents{};
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    extents[d] = shape[d];
  }
  extents[shape.rank()] = extent;
  return Shape(std::span(extents.data(), shape.rank() + 1));
}

/// Throws std::invalid_argument unless `rows` is [places, width] and `ids` is [places].
void require_row_for_each(char const* operation, Shape const& rows, AnyTensor const& ids) {
  require(rows.rank() == 2 && ids.shape().rank() == 1 && rows[0] == ids.count(),
          "{}: values of shape {}, ids of shape {}; expected [places, width] and [places]",
          operation,
          rows,
          ids.shape());
}

kernels::RowTargets row_targets(char const* operation,
                                AnyTensor const& ids,
                                DeviceCount<AnyRuntime> const& count,
                                std::int64_t rows,
                                Workspace const& workspace) {
  return {id_array(ids), ids.count(), count_of(operation, count), rows, workspace.data()};
}

/// Writes each row of `values` to the row of `output` [rows, width] whose index is the id of the
/// row. If `keeps_others`, the other rows of `output` keep their contents; otherwise they are set
/// to 0.
void scatter_to(char const* operation,
                AnyTensor const& output,
                AnyTensor const& values,
                AnyTensor const& ids,
                DeviceCount<AnyRuntime> const& count,
                bool keeps_others,
                std::source_location issued_at) {
  auto const rows = output.shape()[0];
  auto const& device = output.device();
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::scatter_rows_workspace_bytes(
                                  stream, ids.count(), rows, keeps_others);
                            }));
  kernels::ScatterRowsArgs const args{values.data(),
                                      row_bytes_of(values, values.shape()[1]),
                                      row_targets(operation, ids, count, rows, workspace),
                                      keeps_others,
                                      output.data()};
  auto read = reads(values, ids);
  if (count) {
    read.add(*count);
  }
  issue(
      operation,
      read,
      workspace.with(writes(output)),
      [args](auto stream) { kernels::scatter_rows(stream, args); },
      {},
      issued_at);
}

}  // namespace

AnyTensor gather_rows(AnyTensor const& table,
                      AnyTensor const& ids,
                      DeviceCount<AnyRuntime> const& count,
                      std::source_location issued_at) {
  require(table.shape().rank() == 2,
          "gather_rows: table of shape {}; expected [rows, width]",
          table.shape());
  auto const width = table.shape()[1];
  AnyTensor gathered(table.device(), table.dtype(), with_last("gather_rows", ids.shape(), width));
  kernels::GatherRowsArgs const args{table.data(),
                                     table.shape()[0],
                                     row_bytes_of(table, width),
                                     id_array(ids),
                                     ids.count(),
                                     count_of("gather_rows", count),
                                     gathered.data()};
  auto read = reads(table, ids);
  if (count) {
    read.add(*count);
  }
  issue(
      "gather_rows",
      read,
      writes(gathered),
      [args](auto stream) { kernels::gather_rows(stream, args); },
      {},
      issued_at);
  return gathered;
}

AnyBags bags_of_one(AnyTensor const& ids, DeviceCount<AnyRuntime> const& count) {
  auto const flat = ids.reshaped({ids.count()});
  AnyBags bags(flat.dtype() == DType::int32 ? AnyIds(TensorOf<std::int32_t>(flat))
                                            : AnyIds(TensorOf<std::int64_t>(flat)));
  bags.bag_count = count;
  return bags;
}

Floats gather_floats(AnyTensor const& table,
                     AnyTensor const& ids,
                     DeviceCount<AnyRuntime> const& count,
                     std::source_location issued_at) {
  if (table.dtype() == DType::float32) {
    return Floats(msstream::detail::OfKnownType(), gather_rows(table, ids, count, issued_at));
  }
  require_weights("gather_rows", table.dtype());
  require(table.shape().rank() == 2,
          "gather_rows: table of shape {}; expected [rows, width]",
          table.shape());
  (void)count_of("gather_rows", count);
  auto const shape = with_last("gather_rows", ids.shape(), table.shape()[1]);
  auto const rows = embedding_lookup(DType::float32, table, bags_of_one(ids, count), {}, issued_at);
  return Floats(msstream::detail::OfKnownType(), rows.reshaped(shape));
}

AnyTensor scatter_rows(AnyTensor const& values,
                       AnyTensor const& ids,
                       std::int64_t rows,
                       DeviceCount<AnyRuntime> const& count,
                       std::source_location issued_at) {
  require_row_for_each("scatter_rows", values.shape(), ids);
  require(rows >= 0, "scatter_rows: {} rows", rows);
  AnyTensor table(values.device(), values.dtype(), {rows, values.shape()[1]});
  scatter_to("scatter_rows", table, values, ids, count, false, issued_at);
  return table;
}

AnyTensor scatter_rows_gradient(AnyTensor const& output_gradient,
                                AnyTensor const& ids,
                                DeviceCount<AnyRuntime> const& count,
                                std::source_location issued_at) {
  auto const& shape = output_gradient.shape();
  require(shape.rank() == 2 && ids.shape().rank() == 1,
          "scatter_rows_gradient: gradient of shape {}, ids of shape {}; expected [rows, width] "
          "and [places]",
          shape,
          ids.shape());
  auto const& device = output_gradient.device();
  AnyTensor gradient(device, output_gradient.dtype(), {ids.count(), shape[1]});
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::scatter_rows_gradient_workspace_bytes(
                                  stream, ids.count(), shape[0]);
                            }));
  kernels::ScatterRowsGradientArgs const args{
      output_gradient.data(),
      row_bytes_of(output_gradient, shape[1]),
      row_targets("scatter_rows_gradient", ids, count, shape[0], workspace),
      gradient.data()};
  auto read = reads(output_gradient, ids);
  if (count) {
    read.add(*count);
  }
  issue(
      "scatter_rows_gradient",
      read,
      workspace.with(writes(gradient)),
      [args](auto stream) { kernels::scatter_rows_gradient(stream, args); },
      {},
      issued_at);
  return gradient;
}

void assign_rows(AnyTensor const& table,
                 AnyTensor const& values,
                 AnyTensor const& ids,
                 DeviceCount<AnyRuntime> const& count,
                 std::source_location issued_at) {
  require_row_for_each("assign_rows", values.shape(), ids);
  require(table.shape().rank() == 2 && table.shape()[1] == values.shape()[1],
          "assign_rows: values of shape {} for a table of shape {}",
          values.shape(),
          table.shape());
  msstream::detail::require_no_overlap("assign_rows", table, values);
  msstream::detail::require_no_overlap("assign_rows", table, ids);
  if (count) {
    msstream::detail::require_no_overlap("assign_rows", table, count->any());
  }
  scatter_to("assign_rows", table, values, ids, count, true, issued_at);
}

}  // namespace msstream::ops::detail
