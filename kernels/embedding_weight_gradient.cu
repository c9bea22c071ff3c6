// SPDX-License-Identifier: Apache-2.0
#include "bag_layout.hpp"
#include "cuda_check.cuh"
#include "real_types.hpp"
#include "row_vector.cuh"

#include <msstream/ops/kernels/embedding_gradient.hpp>

#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;

/// A warp a place.
template <class T, class Id>
__global__ void __launch_bounds__(kThreads)
    weight_gradient_kernel(WeightGradientArgs const args, IdBags<Id> const bags) {
  auto const place = grid_thread() / 32;
  if (place >= bags.capacity) {
    return;
  }
  int const lane = static_cast<int>(threadIdx.x) % 32;
  auto const existing = bags.existing_places();
  bool const exists = place >= existing.begin && place < existing.end;
  std::int64_t const id = exists ? static_cast<std::int64_t>(bags.ids[place]) : -1;
  float sum = 0.0F;
  if (is_in_range(id, args.rows)) {
    auto const output = args.pooling == Pooling::none ? place : bags.bag_of(place);
    auto const* const row = static_cast<T const*>(args.table) + id * args.width;
    auto const* const gradient = args.output_gradient + output * args.width;
#pragma unroll 4
    for (std::int64_t c = lane; c < args.width; c += 32) {
      sum = __fadd_rn(sum, __fmul_rn(load_columns<1>(row + c).at[0], __ldg(gradient + c)));
    }
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFU, sum, distance));
  }
  if (lane == 0) {
    args.weight_gradient[place] = sum;
  }
}

}  // namespace

void embedding_weight_gradient(CudaStream stream, WeightGradientArgs const& args) {
  if (args.bags.capacity == 0) {
    return;
  }
  with_id_type("embedding_weight_gradient", args.bags, [&]<class Id>(IdBags<Id> const& bags) {
    with_real_type("embedding_weight_gradient: a table", args.table_dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      weight_gradient_kernel<T, Id>
          <<<grid_for(args.bags.capacity, kThreads / 32), kThreads, 0, stream>>>(args, bags);
    });
  });
  check_launch("embedding_weight_gradient");
}

}  // namespace msstream::ops::kernels
