// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"
#include "embedding_gradient/row_gradients.cuh"
#include "embedding_gradient/update.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace msstream::ops::kernels {
namespace {

/// Returns whether the rule has one number of state per row.
bool has_state_of_rows(OptimizerKind kind) {
  return kind == OptimizerKind::rowwise_adagrad || kind == OptimizerKind::partial_rowwise_adam;
}

/// Returns whether the kernels that sum half-precision gradients update rows by a rule. Where they
/// do not, writing the gradients and reading them again was as fast: a rule with more state has few
/// rows in flight.
template <OptimizerKind Kind>
constexpr bool kSumsHalves = Kind == OptimizerKind::sgd || Kind == OptimizerKind::rowwise_adagrad;

/// Returns whether one kernel can both sum the gradients and update the rows. If not, the gradients
/// are written to the workspace, from which update_rows() reads them. Does not depend on pointers,
/// so that the workspace can be sized without them.
bool is_fused(OptimizerKind kind, RowGradientArgs const& args) {
  constexpr std::int64_t kWidestOfLanes = 128;
  // Row-wise Adagrad of narrower rows takes longer if fused with sums of halves.
  constexpr std::int64_t kNarrowest = 128;
  bool const fits_type = args.gradient_dtype == DType::float32 || kind == OptimizerKind::sgd ||
                         (kind == OptimizerKind::rowwise_adagrad && args.width >= kNarrowest);
  return fits_type && args.pooling != Pooling::max && args.width % 4 == 0 &&
         !has_few_places(args.bags) && kind != OptimizerKind::lamb &&
         (!has_state_of_rows(kind) || args.width <= kWidestOfLanes);
}

/// Returns whether four columns of a row can be loaded with one access from each of the arrays of
/// an update.
bool is_whole(EmbeddingUpdateArgs const& args, OptimizerKind kind) {
  auto const fits = [](void const* data, std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
  };
  return fits(args.gradient.output_gradient, 4 * bytes_of(args.gradient.gradient_dtype)) &&
         fits(args.table, 4 * bytes_of(args.table_dtype)) &&
         (kind == OptimizerKind::rowwise_adagrad || fits(args.state0, 16)) &&
         (kind == OptimizerKind::partial_rowwise_adam || fits(args.state1, 16));
}

/// The workspace of an embedding update.
struct UpdateMemory {
  std::optional<RowGradientMemory> fused;
  float* row_gradients = nullptr;  ///< [places, width]; null if the update is fused
  void* gradient_workspace = nullptr;
  std::size_t bytes;

  UpdateMemory(void* memory, CudaStream stream, OptimizerKind kind, RowGradientArgs const& args) {
    WorkspaceLayout workspace(memory);
    if (is_fused(kind, args)) {
      fused.emplace(workspace, args.bags, args.pooling, args.width);
    } else {
      row_gradients = workspace.take<float>(place_capacity(args.bags) * args.width);
      gradient_workspace = workspace.take_bytes(
          row_gradient_workspace_bytes(stream, args.bags, args.pooling, args.width));
    }
    bytes = workspace.bytes();
  }
};

template <OptimizerKind Kind, class Weight>
void launch(CudaStream stream,
            OptimizerRule const& rule,
            StepState const* step,
            EmbeddingUpdateArgs const& args,
            RowGradientMemory const& memory) {
  auto const& gradient = args.gradient;
  auto const launch_rows = [&](auto const& rows) {
    launch_grouped_sums(
        stream,
        {gradient.ranks, gradient.positions, gradient.starts, place_capacity(gradient.bags)},
        make_place_source(stream, gradient, memory.lists),
        rows,
        gradient_row_count(gradient),
        MoveRows<Kind, Weight>{
            {static_cast<Weight*>(args.table), args.state0, args.state1, gradient.width},
            args.unique_ids,
            rule,
            args.numbers,
            step},
        gradient.width,
        *memory.borders);
  };
  if (gradient.gradient_dtype == DType::float32) {
    launch_rows(GradientRows<float, false, true>{
        static_cast<float const*>(gradient.output_gradient), nullptr, gradient.width});
  } else if constexpr (kSumsHalves<Kind>) {
    launch_rows(HalfGradientRows{
        gradient.output_gradient, gradient.gradient_dtype == DType::bfloat16, gradient.width});
  }
}

void update_by_gradients(CudaStream stream,
                         OptimizerRule const& rule,
                         StepState const* step,
                         EmbeddingUpdateArgs const& args,
                         UpdateMemory const& memory) {
  auto gradient = args.gradient;
  gradient.row_gradients = memory.row_gradients;
  gradient.workspace = memory.gradient_workspace;
  embedding_row_gradients(stream, gradient);
  RowUpdate const update{.table = args.table,
                         .dtype = args.table_dtype,
                         .numbers = args.numbers,
                         .width = gradient.width,
                         .row_ids = args.unique_ids,
                         .row_count = gradient.unique_count,
                         .capacity = place_capacity(gradient.bags),
                         .gradients = gradient.row_gradients,
                         .state0 = args.state0,
                         .state1 = args.state1};
  update_rows(stream, rule, step, {&update, 1});
}

}  // namespace

std::size_t embedding_update_workspace_bytes(CudaStream stream,
                                             OptimizerKind kind,
                                             RowGradientArgs const& gradient) {
  return UpdateMemory(nullptr, stream, kind, gradient).bytes;
}

void embedding_update(CudaStream stream,
                      OptimizerRule const& rule,
                      StepState const* step,
                      EmbeddingUpdateArgs const& args) {
  if (place_capacity(args.gradient.bags) == 0 || args.gradient.width == 0) {
    return;
  }
  require_real_type("embedding_update: a gradient", args.gradient.gradient_dtype);
  UpdateMemory const memory(args.gradient.workspace, stream, rule.kind, args.gradient);
  if (!memory.fused) {
    return update_by_gradients(stream, rule, step, args, memory);
  }
  if (!is_whole(args, rule.kind)) {
    throw std::invalid_argument("embedding_update: arrays of width " +
                                std::to_string(args.gradient.width) +
                                " that are not aligned to four elements");
  }
  with_kind(rule.kind, [&](auto kind) {
    if constexpr (!has_trust_ratio<kind()>) {
      with_real_type("embedding_update: a table", args.table_dtype, [&](auto type) {
        launch<kind(), typename decltype(type)::type>(stream, rule, step, args, *memory.fused);
      });
    }
  });
}

}  // namespace msstream::ops::kernels
