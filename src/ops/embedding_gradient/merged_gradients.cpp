// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding_gradient/merged_gradients.hpp"

#include "embedding_gradient/row_parts.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/bags.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstddef>
#include <memory>
#include <variant>

namespace msstream::ops::detail {
namespace {

/// Returns the arguments of a copy of the gradient's rows, except for its destination.
kernels::MergeRowsArgs merge_args(TableGradient const& gradient, std::int64_t width) {
  auto const view = view_of(gradient);
  return {.ids = view.ids,
          .values = view.values,
          .end = view.end,
          .capacity = view.capacity,
          .width = width,
          .merged_ids = nullptr,
          .merged_values = nullptr,
          .first_row = view.first_row,
          .begin = view.begin,
          .stride = view.stride};
}

Reads reads_of(TableGradient const& gradient) {
  Reads read;
  add_gradient(gradient, read);
  return read;
}

std::shared_ptr<msstream::detail::DeviceState> const& device_of(TableGradient const& gradient) {
  auto const* const part = std::get_if<TablePart>(&gradient);
  return part != nullptr ? part->all->rows().values.device()
                         : std::get<RowGradients<AnyRuntime>>(gradient).values.device();
}

}  // namespace

RowGradients<AnyRuntime> own_rows(TableGradient const& gradient,
                                  std::int64_t width,
                                  std::source_location issued_at) {
  if (auto const* const own = std::get_if<RowGradients<AnyRuntime>>(&gradient)) {
    return *own;
  }
  auto args = merge_args(gradient, width);
  auto const& device = device_of(gradient);
  RowGradients<AnyRuntime> rows{TensorOf<std::int64_t>(device, {args.capacity}),
                                TensorOf<std::int64_t>(device, {}),
                                Floats(device, {args.capacity, width})};
  args.merged_ids = rows.ids.data();
  args.merged_values = rows.values.data();
  args.merged_count = rows.count.data();
  issue(
      "rows_of_table",
      reads_of(gradient),
      writes(rows.ids, rows.values, rows.count),
      [args](auto stream) { kernels::merge_rows(stream, args); },
      {},
      issued_at);
  return rows;
}

void copy_rows(TableGradient const& gradient,
               TensorOf<std::int64_t> const& ids,
               Floats const& values,
               std::source_location issued_at) {
  auto args = merge_args(gradient, values.shape()[1]);
  args.capacity = ids.count();
  args.merged_ids = ids.data();
  args.merged_values = values.data();
  issue(
      "rows_of_table",
      reads_of(gradient),
      writes(ids, values),
      [args](auto stream) { kernels::merge_rows(stream, args); },
      {},
      issued_at);
}

void copy_ids(TensorOf<std::int64_t> const& ids,
              TensorOf<std::int64_t> const& count,
              TensorOf<std::int64_t> const& to,
              std::source_location issued_at) {
  kernels::MergeRowsArgs const args{.ids = ids.data(),
                                    .values = nullptr,
                                    .end = count.data(),
                                    .capacity = to.count(),
                                    .width = 0,
                                    .merged_ids = to.data(),
                                    .merged_values = nullptr};
  issue(
      "ids_of_table",
      reads(ids, count),
      writes(to),
      [args](auto stream) { kernels::merge_rows(stream, args); },
      {},
      issued_at);
}

RowGradients<AnyRuntime> sum_of_rows(TensorOf<std::int64_t> const& ids,
                                     Floats const& values,
                                     std::int64_t rows,
                                     std::source_location issued_at) {
  AnyBags const bags(ids);
  return embedding_gradient(bags,
                            deduplicate(bags, rows, Pooling::sum, issued_at),
                            rows,
                            Pooling::sum,
                            values.any(),
                            {},
                            issued_at);
}

RowGradients<AnyRuntime> merged_gradients(std::vector<TableGradient> const& parts,
                                          Shape const& table,
                                          std::vector<std::int64_t> const& first_rows,
                                          std::source_location issued_at) {
  auto const width = table[1];
  std::int64_t capacity = 0;
  for (auto const& part : parts) {
    capacity += view_of(part).capacity;
  }
  auto const& device = device_of(parts.front());
  TensorOf<std::int64_t> ids(device, {capacity});
  Floats values(device, {capacity, width});
  std::int64_t begin = 0;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    auto args = merge_args(parts[k], width);
    args.merged_ids = ids.data() + begin;
    args.merged_values = values.data() + begin * width;
    args.first_row += first_rows.empty() ? 0 : first_rows[k];
    issue(
        "merge_rows",
        reads_of(parts[k]),
        writes(ids, values),
        [args](auto stream) { kernels::merge_rows(stream, args); },
        {},
        issued_at);
    begin += args.capacity;
  }
  return sum_of_rows(ids, values, table[0], issued_at);
}

RowGradients<AnyRuntime> merge_row_gradients(std::vector<RowGradients<AnyRuntime>> const& parts,
                                             std::int64_t rows,
                                             std::vector<std::int64_t> const& first_rows,
                                             std::source_location issued_at) {
  require(!parts.empty(), "merge_row_gradients: no parts");
  require(first_rows.empty() || first_rows.size() == parts.size(),
          "merge_row_gradients: {} first rows for {} parts",
          first_rows.size(),
          parts.size());
  for (auto const& part : parts) {
    auto const& shape = part.values.shape();
    require(shape.rank() == 2 && part.ids.count() == shape[0] &&
                shape[1] == parts.front().values.shape()[1],
            "merge_row_gradients: ids {} with values {}, after values {}",
            part.ids.shape(),
            shape,
            parts.front().values.shape());
  }
  return merged_gradients(
      {parts.begin(), parts.end()}, {rows, parts.front().values.shape()[1]}, first_rows, issued_at);
}

}  // namespace msstream::ops::detail
