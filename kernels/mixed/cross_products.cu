// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"
#include "common/vector_map.cuh"
#include "mixed/cross_products.hpp"
#include "mixed/fused_cross.hpp"
#include "mixed/unfused_cross.hpp"

namespace msstream::ops::kernels {
namespace {

template <class T, int Quads>
__global__ void __launch_bounds__(kBlockThreads)
    cross_sum_kernel(CrossSumArgs const args, bool aligned) {
  auto const place = grid_place<Quads>(args.count, aligned);
  if (!place.exists()) {
    return;
  }
  auto const load = [&](void const* array) { return place.load(static_cast<T const*>(array)); };
  auto total = load(args.sum);
  auto const add = [&](auto const& value_of) {
#pragma unroll
    for (int lane = 0; lane < place.kLanes; ++lane) {
      total.lanes[lane] = __fadd_rn(total.lanes[lane], value_of(lane));
    }
  };
  if (args.added != nullptr) {
    auto const added = load(args.added);
    add([&](int lane) { return added.lanes[lane]; });
  }
#pragma unroll
  for (auto const& layer : args.layers) {
    if (layer.output_gradient != nullptr) {
      auto const gradient = load(layer.output_gradient);
      auto const projected = load(layer.projected);
      add([&](int lane) { return __fmul_rn(gradient.lanes[lane], projected.lanes[lane]); });
    }
  }
  place.store(static_cast<T*>(args.sum), total);
}

}  // namespace

void cross_forward(CudaStream stream, CrossForwardArgs const& args) {
  bool const fuses =
      fuses_cross_products(stream, CrossStage::forward, args.shape) &&
      quads_fit(
          args.hidden, args.up, args.bias, args.first, args.input, args.projected, args.output);
  fuses ? fused_cross_forward(stream, args) : unfused_cross_forward(stream, args);
}

std::size_t cross_gradient_workspace_bytes(CudaStream, CrossGradientArgs const& args) {
  auto const& shape = args.shape;
  return fits_fused_cross(CrossStage::gradient, shape)
             ? sizeof(float) *
                   static_cast<std::size_t>(fused_cross_partial_rows(shape.rows) * shape.columns)
             : 0;
}
void cross_gradient(CudaStream stream, CrossGradientArgs const& args) {
  bool const fuses =
      fuses_cross_products(stream, CrossStage::gradient, args.shape) &&
      quads_fit(args.gradient, args.down, args.added, args.first, args.sum, args.projected);
  fuses ? fused_cross_gradient(stream, args) : unfused_cross_gradient(stream, args);
}

void cross_last_gradient(CudaStream stream, CrossLastGradientArgs const& args) {
  bool fuses = fuses_cross_products(stream, CrossStage::last_gradient, args.shape) &&
               quads_fit(args.gradient, args.down, args.input_gradient);
  for (auto const& layer : args.layers) {
    fuses = fuses && quads_fit(layer.output_gradient, layer.projected);
  }
  fuses ? fused_cross_last_gradient(stream, args) : unfused_cross_last_gradient(stream, args);
}

void cross_sum(CudaStream stream, CrossSumArgs const& args) {
  if (args.count == 0) {
    return;
  }
  bool aligned = quads_fit(args.sum, args.added);
  for (auto const& layer : args.layers) {
    aligned = aligned && quads_fit(layer.output_gradient, layer.projected);
  }
  with_real_type("cross_sum: a gradient", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_quads_a_thread(args.count, [&](auto quads, unsigned blocks) {
      cross_sum_kernel<T, quads.value><<<blocks, kBlockThreads, 0, stream.handle>>>(args, aligned);
    });
    check_launch("cross_sum");
  });
}

}  // namespace msstream::ops::kernels
