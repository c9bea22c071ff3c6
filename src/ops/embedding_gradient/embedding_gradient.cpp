// SPDX-License-Identifier: Apache-2.0
#include "embedding_gradient/gradients.hpp"
#include "ops/common/bag_view.hpp"
#include "ops/common/workspace.hpp"
#include "ops/embedding/embedding.hpp"
#include "ops/embedding_gradient/row_gradient_args.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <source_location>
#include <vector>

namespace msstream::ops::detail {

UniqueRows<AnyRuntime> deduplicate(AnyBags const& bags,
                                   std::int64_t rows,
                                   Pooling pooling,
                                   std::source_location issued_at) {
  auto const& device = bags.ids.device();
  auto const view = view_of(bags);
  auto const places = kernels::place_capacity(view);
  require(places <= std::numeric_limits<std::int32_t>::max(),
          "deduplicate: {} places of ids are not below 2^31",
          places);
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

kernels::RowGradientArgs row_gradient_args(char const* operation,
                                           AnyBags const& bags,
                                           UniqueRows<AnyRuntime> const& unique,
                                           std::int64_t rows,
                                           Pooling pooling,
                                           AnyTensor const& output_gradient,
                                           std::optional<TensorOf<std::int32_t>> const& argmax,
                                           Reads& read) {
  require(output_gradient.shape().rank() == 2,
          "{}: output gradient of shape {}; expected [{}, width]",
          operation,
          output_gradient.shape(),
          pooled_shape(bags, pooling, 1)[0]);
  require_weights(operation, output_gradient.dtype());
  auto const width = output_gradient.shape()[1];
  auto const pooled = pooled_shape(bags, pooling, width);
  require(output_gradient.shape() == pooled,
          "{}: output gradient of shape {}; expected {}",
          operation,
          output_gradient.shape(),
          pooled);
  require_pooling(operation, bags, pooling, argmax, pooled);
  require(argmax.has_value() == (pooling == Pooling::max),
          "{}: argmax goes with Pooling::max",
          operation);
  auto const view = view_of(bags);
  auto const places = kernels::place_capacity(view);
  require(unique.positions.count() == places && unique.starts.count() == places + 1,
          "{}: ids of shape {} with {} places, grouped {}",
          operation,
          bags.ids.shape(),
          places,
          unique.positions.shape());
  read.add(unique.starts);
  read.add(unique.positions);
  read.add(unique.ranks);
  read.add(unique.count);
  read.add(output_gradient);
  if (argmax) {
    read.add(*argmax);
  }
  return {.bags = view,
          .rows = rows,
          .pooling = pooling,
          .starts = unique.starts.data(),
          .positions = unique.positions.data(),
          .ranks = unique.ranks.data(),
          .unique_count = unique.count.data(),
          .output_gradient = output_gradient.data(),
          .gradient_dtype = output_gradient.dtype(),
          .width = width,
          .row_gradients = nullptr,
          .workspace = nullptr,
          .argmax = argmax ? argmax->data() : nullptr};
}

RowGradients<AnyRuntime> embedding_gradient(AnyBags const& bags,
                                            UniqueRows<AnyRuntime> const& unique,
                                            std::int64_t rows,
                                            Pooling pooling,
                                            AnyTensor const& output_gradient,
                                            std::optional<TensorOf<std::int32_t>> const& argmax,
                                            std::source_location issued_at) {
  auto const& device = bags.ids.device();
  auto read = reads_of(bags);
  auto args = row_gradient_args(
      "embedding_gradient", bags, unique, rows, pooling, output_gradient, argmax, read);
  Floats values(device, {unique.positions.count(), args.width});
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::row_gradient_workspace_bytes(
                                  stream, args.bags, pooling, args.width);
                            }));
  args.row_gradients = values.data();
  args.workspace = workspace.data();
  issue(
      "embedding_gradient",
      read,
      workspace.with(writes(values)),
      [args](auto stream) { kernels::embedding_row_gradients(stream, args); },
      {},
      issued_at);
  return {unique.ids, unique.count, values};
}

Floats embedding_weight_gradient(AnyTensor const& table,
                                 AnyBags const& bags,
                                 Pooling pooling,
                                 Floats const& output_gradient,
                                 std::source_location issued_at) {
  require(pooling == Pooling::sum || pooling == Pooling::none,
          "embedding_weight_gradient: pooling is not sum or none");
  require(table.shape().rank() == 2,
          "embedding_weight_gradient: table of shape {}; expected [rows, width]",
          table.shape());
  require_weights("embedding_weight_gradient", table.dtype());
  require(bags.ids.count() <= std::numeric_limits<std::int32_t>::max(),
          "embedding_weight_gradient: {} ids are not below 2^31",
          bags.ids.count());
  auto const pooled = pooled_shape(bags, pooling, table.shape()[1]);
  require(output_gradient.shape() == pooled,
          "embedding_weight_gradient: output gradient of shape {}; expected {}",
          output_gradient.shape(),
          pooled);
  Floats gradient(table.device(), bags.ids.shape());
  kernels::WeightGradientArgs const args{.table = table.data(),
                                         .table_dtype = table.dtype(),
                                         .rows = table.shape()[0],
                                         .width = table.shape()[1],
                                         .bags = view_of(bags),
                                         .pooling = pooling,
                                         .output_gradient = output_gradient.data(),
                                         .weight_gradient = gradient.data()};
  auto read = reads_of(bags);
  read.add(table);
  read.add(output_gradient);
  issue(
      "embedding_weight_gradient",
      read,
      writes(gradient),
      [args](auto stream) { kernels::embedding_weight_gradient(stream, args); },
      {},
      issued_at);
  return gradient;
}

}  // namespace msstream::ops::detail
