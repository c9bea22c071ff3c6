// SPDX-License-Identifier: Apache-2.0
#include "ops/bag_view.hpp"
#include "ops/workspace.hpp"

#include <msstream/base/error.hpp>
#include <msstream/ops/bags.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/ops/embedding_gradient.hpp>
#include <msstream/ops/kernels/embedding_gradient.hpp>
#include <msstream/ops/kernels/row_parts.hpp>
#include <msstream/ops/pooling.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <source_location>
#include <vector>

namespace msstream::ops::detail {

UniqueRows<AnyRuntime> deduplicate(Bags<AnyRuntime> const& bags,
                                   std::int64_t rows,
                                   Pooling pooling,
                                   std::source_location issued_at) {
  auto const& device = bags.ids.device();
  auto const view = view_of(bags);
  auto const places = kernels::place_capacity(view);
  require(places <= std::numeric_limits<std::int32_t>::max(),
          "deduplicate: ",
          places,
          " places of ids are not below 2^31");
  UniqueRows<AnyRuntime> unique{{device, {places}},
                                {device, {places + 1}},
                                {device, {places}},
                                {device, {places}},
                                {device, Shape{}}};
  auto const workspace_bytes = ask_kernels(
      *device, [&](auto stream) { return kernels::deduplicate_workspace_bytes(stream, places); });
  Workspace const workspace(device, workspace_bytes);
  kernels::DeduplicateArgs const args{.bags = view,
                                      .rows = rows,
                                      .unique_ids = unique.ids.data(),
                                      .starts = unique.starts.data(),
                                      .positions = unique.positions.data(),
                                      .ranks = unique.ranks.data(),
                                      .unique_count = unique.count.data(),
                                      .workspace = workspace.data(),
                                      .pools = pooling != Pooling::none};
  issue(
      "deduplicate",
      reads_of(bags),
      workspace.with(
          writes(unique.ids, unique.starts, unique.positions, unique.ranks, unique.count)),
      [args](auto stream) { kernels::deduplicate(stream, args); },
      {},
      issued_at);
  return unique;
}

RowGradients<AnyRuntime> merge_row_gradients(std::vector<RowGradients<AnyRuntime>> const& parts,
                                             std::int64_t rows,
                                             std::vector<std::int64_t> const& first_rows,
                                             std::source_location issued_at) {
  require(!parts.empty(), "merge_row_gradients: no parts");
  require(first_rows.empty() || first_rows.size() == parts.size(),
          "merge_row_gradients: ",
          first_rows.size(),
          " first rows for ",
          parts.size(),
          " parts");
  std::int64_t capacity = 0;
  for (auto const& part : parts) {
    auto const& shape = part.values.shape();
    require(shape.rank() == 2 && part.ids.count() == shape[0] &&
                shape[1] == parts.front().values.shape()[1],
            "merge_row_gradients: ids ",
            part.ids.shape(),
            " with values ",
            shape,
            ", after values ",
            parts.front().values.shape());
    capacity += shape[0];
  }
  std::int64_t const width = parts.front().values.shape()[1];
  auto const& device = parts.front().values.device();
  TensorOf<std::int64_t> ids(device, {capacity});
  Floats values(device, {capacity, width});
  std::int64_t begin = 0;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    auto const& part = parts[k];
    std::int64_t const part_capacity = part.values.shape()[0];
    kernels::MergeRowsArgs const args{part.ids.data(),
                                      part.values.data(),
                                      part.count.data(),
                                      part_capacity,
                                      width,
                                      ids.data() + begin,
                                      values.data() + begin * width,
                                      first_rows.empty() ? 0 : first_rows[k]};
    issue(
        "merge_rows",
        reads(part.ids, part.values, part.count),
        writes(ids, values),
        [args](auto stream) { kernels::merge_rows(stream, args); },
        {},
        issued_at);
    begin += part_capacity;
  }
  Bags<AnyRuntime> const bags(ids);
  return embedding_gradient(bags,
                            deduplicate(bags, rows, Pooling::sum, issued_at),
                            rows,
                            Pooling::sum,
                            values,
                            {},
                            issued_at);
}

}  // namespace msstream::ops::detail
