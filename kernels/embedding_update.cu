// SPDX-License-Identifier: Apache-2.0
#include "embedding_places.cuh"
#include "gradient_rows.cuh"
#include "grouped_sums.cuh"
#include "real_types.hpp"

#include <msstream/ops/kernels/embedding_update.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

/// What one kernel cannot do gets gradients in memory and update_rows(). Says nothing of pointers,
/// so that the workspace can be sized without them.
bool is_fused(OptimizerKind kind, RowGradientArgs const& args) {
  constexpr std::int64_t kWidestOfLanes = 128;
  return args.pooling != Pooling::max && args.gradient_dtype == DType::float32 &&
         args.width % 4 == 0 && !has_few_places(args.bags) &&
         (kind != OptimizerKind::rowwise_adagrad || args.width <= kWidestOfLanes);
}

/// Whether four columns of each row of all arrays can be loaded at once.
bool is_whole(EmbeddingUpdateArgs const& args, OptimizerKind kind) {
  auto const fits = [](void const* data, std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
  };
  bool const has_row_state = kind == OptimizerKind::rowwise_adagrad;
  return fits(args.gradient.output_gradient, 16) &&
         fits(args.table, 4 * bytes_of(args.table_dtype)) &&
         (has_row_state || fits(args.state0, 16)) && fits(args.state1, 16);
}

template <OptimizerKind Kind, class Weight>
void launch(CudaStream stream,
            OptimizerRule const& rule,
            StepState const* step,
            EmbeddingUpdateArgs const& args) {
  auto const& gradient = args.gradient;
  auto const places = place_capacity(gradient.bags);
  auto* const lists = static_cast<std::byte*>(gradient.workspace) +
                      grouped_sums_workspace_bytes(places, gradient.width);
  launch_grouped_sums(
      stream,
      {gradient.ranks, gradient.positions, gradient.starts, places},
      make_place_source(stream, gradient, lists),
      GradientRows<float, false, true>{
          static_cast<float const*>(gradient.output_gradient), nullptr, gradient.width},
      gradient_row_count(gradient),
      MoveRows<Kind, Weight>{
          {static_cast<Weight*>(args.table), args.state0, args.state1, gradient.width},
          args.unique_ids,
          rule,
          step},
      gradient.width,
      gradient.workspace);
}

void update_by_gradients(CudaStream stream,
                         OptimizerRule const& rule,
                         StepState const* step,
                         EmbeddingUpdateArgs const& args) {
  auto gradient = args.gradient;
  gradient.row_gradients = static_cast<float*>(gradient.workspace);
  auto const places = place_capacity(gradient.bags);
  gradient.workspace = static_cast<std::byte*>(args.gradient.workspace) +
                       stored_gradient_bytes(places, gradient.width);
  embedding_row_gradients(stream, gradient);
  RowUpdate const update{.table = args.table,
                         .dtype = args.table_dtype,
                         .width = gradient.width,
                         .row_ids = args.unique_ids,
                         .row_count = gradient.unique_count,
                         .capacity = places,
                         .gradients = gradient.row_gradients,
                         .state0 = args.state0,
                         .state1 = args.state1};
  update_rows(stream, rule, step, {&update, 1});
}

}  // namespace

std::size_t embedding_update_workspace_bytes(CudaStream stream,
                                             OptimizerKind kind,
                                             RowGradientArgs const& gradient) {
  auto const bytes =
      row_gradient_workspace_bytes(stream, gradient.bags, gradient.pooling, gradient.width);
  return is_fused(kind, gradient)
             ? bytes
             : bytes + stored_gradient_bytes(place_capacity(gradient.bags), gradient.width);
}

void embedding_update(CudaStream stream,
                      OptimizerRule const& rule,
                      StepState const* step,
                      EmbeddingUpdateArgs const& args) {
  if (place_capacity(args.gradient.bags) == 0 || args.gradient.width == 0) {
    return;
  }
  if (!is_fused(rule.kind, args.gradient)) {
    return update_by_gradients(stream, rule, step, args);
  }
  require(is_whole(args, rule.kind),
          "embedding_update: arrays of width ",
          args.gradient.width,
          " that are not aligned to four elements");
  with_kind(rule.kind, [&](auto kind) {
    with_real_type("embedding_update: a table", args.table_dtype, [&](auto type) {
      launch<kind(), typename decltype(type)::type>(stream, rule, step, args);
    });
  });
}

}  // namespace msstream::ops::kernels
