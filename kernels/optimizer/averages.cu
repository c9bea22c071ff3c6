// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/rounded.hpp"
#include "common/vector_map.cuh"
#include "optimizer/averages.hpp"

#include <span>

namespace msstream::ops::kernels {

namespace {

struct AveragePiece {
  AveragedWeights tensor;
  unsigned first_block;
  bool aligned;
};
using AverageTable = PieceTable<AveragePiece, 48>;

struct AddToAverage {
  float decay;

  __device__ void operator()(float& weight, float& average) const {
    Rounded const kept{decay};
    average = (kept * Rounded{average} + (Rounded{1.0F} - kept) * Rounded{weight}).value;
  }
};
struct Exchange {
  __device__ void operator()(float& weight, float& average) const {
    float const before = weight;
    weight = average;
    average = before;
  }
};

template <bool StoresWeights, class Function>
__global__ void __launch_bounds__(kBlockThreads)
    averages_kernel(__grid_constant__ AverageTable const table, Function const function) {
  auto const& piece = piece_of_block(table.pieces, table.count);
  auto const& tensor = piece.tensor;
  QuadPlace const place(piece_thread(piece), tensor.count, piece.aligned);
  if (!place.exists()) {
    return;
  }
  auto weights = place.load(tensor.weights);
  auto average = place.load(tensor.average);
  for (int k = 0; k < 4; ++k) {
    function(weights.lanes[k], average.lanes[k]);
  }
  place.store(tensor.average, average);
  if constexpr (StoresWeights) {
    place.store(tensor.weights, weights);
  }
}

template <bool StoresWeights, class Function>
void for_all(CudaStream stream,
             char const* name,
             std::span<AveragedWeights const> tensors,
             Function const& function) {
  AverageTable table;
  auto const launch = [&] {
    if (table.count > 0) {
      averages_kernel<StoresWeights>
          <<<grid_for(table.blocks, 1), kBlockThreads, 0, stream.handle>>>(table, function);
      check_launch(name);
      table = {};
    }
  };
  for (auto const& tensor : tensors) {
    if (table.full()) {
      launch();
    }
    if (tensor.count > 0) {
      table.add({tensor, 0, quads_fit(tensor.weights, tensor.average)},
                grid_for(tensor.count, 4 * kBlockThreads));
    }
  }
  launch();
}

}  // namespace

void update_averages(CudaStream stream, float decay, std::span<AveragedWeights const> tensors) {
  for_all<false>(stream, "update_averages", tensors, AddToAverage{decay});
}

void swap_averages(CudaStream stream, std::span<AveragedWeights const> tensors) {
  for_all<true>(stream, "swap_averages", tensors, Exchange{});
}

}  // namespace msstream::ops::kernels
