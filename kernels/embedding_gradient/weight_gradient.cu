// SPDX-License-Identifier: Apache-2.0
#include "common/existing_places.hpp"
#include "common/launch.cuh"
#include "common/real_types.hpp"
#include "common/row_vector.cuh"
#include "embedding_gradient/gradients.hpp"
#include "ids/bag_layout.hpp"

#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kInFlight = 4;  ///< positions per group of lanes

/// The row of the table and the row of the output gradient that belong to a position of the ids;
/// negative if there is no such row.
struct RowPair {
  std::int64_t table = -1;
  std::int64_t output = -1;
};

/// Finds the rows of the table and of the output gradient for neighbouring positions of the ids.
/// Positions of one bag share one search.
template <class Id>
__device__ void find_pairs(WeightGradientArgs const& args,
                           IdBags<Id> const& bags,
                           std::int64_t first,
                           RowPair (&pairs)[kInFlight]) {
  auto const existing = bags.existing_places();
  std::int64_t bag = -1;
  std::int64_t bag_end = first;
#pragma unroll
  for (int k = 0; k < kInFlight; ++k) {
    auto const place = first + k;
    if (place < existing.begin || place >= existing.end) {
      continue;
    }
    if (args.pooling == Pooling::none) {
      pairs[k].output = place;
    } else {
      if (place >= bag_end) {
        bag = bags.bag_of(place);
        bag_end = bag < 0                   ? place + 1
                  : bags.offsets != nullptr ? static_cast<std::int64_t>(bags.offsets[bag + 1])
                                            : bags.places_of(bag).end;
      }
      if (bag < 0) {
        continue;
      }
      pairs[k].output = bag;
    }
    std::int64_t const id = bags.ids[place];
    pairs[k].table = is_in_range(id, args.rows) ? id : -1;
  }
}

/// Computes the weight gradients of kInFlight positions per group of lanes.
template <class T, class Id, int Count>
__global__ void __launch_bounds__(kThreads)
    weight_gradient_kernel(__grid_constant__ WeightGradientArgs const args,
                           __grid_constant__ IdBags<Id> const bags,
                           RowLanes const shape) {
  auto const first = (grid_thread() >> shape.log2_lanes) * kInFlight;
  RowPair pairs[kInFlight];
  find_pairs(args, bags, first, pairs);
  float sums[kInFlight] = {};
  for (std::int64_t column = shape.lane() * Count; column < args.width;
       column += shape.lanes() * Count) {
    Columns<Count> rows[kInFlight];
    Columns<Count> gradients[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (pairs[k].table >= 0) {
        rows[k] = load_columns<Count>(static_cast<T const*>(args.table) +
                                      pairs[k].table * args.width + column);
        gradients[k] =
            load_columns<Count>(args.output_gradient + pairs[k].output * args.width + column);
      }
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (pairs[k].table >= 0) {
#pragma unroll
        for (int c = 0; c < Count; ++c) {
          sums[k] = __fadd_rn(sums[k], __fmul_rn(rows[k].at[c], gradients[k].at[c]));
        }
      }
    }
  }
  for (int distance = shape.lanes() / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      sums[k] = __fadd_rn(sums[k], __shfl_xor_sync(kAllLanes, sums[k], distance));
    }
  }
#pragma unroll
  for (int k = 0; k < kInFlight; ++k) {
    if (shape.lane() == 0 && first + k < bags.capacity) {
      args.weight_gradient[first + k] = sums[k];
    }
  }
}

template <class T, class Id, int Count>
void launch(CudaStream stream, WeightGradientArgs const& args, IdBags<Id> const& bags) {
  RowLanes const shape(args.width, Count);
  auto const blocks = grid_for(bags.capacity, (kThreads >> shape.log2_lanes) * kInFlight);
  weight_gradient_kernel<T, Id, Count><<<blocks, kThreads, 0, stream>>>(args, bags, shape);
  check_launch("embedding_weight_gradient");
}

}  // namespace

void embedding_weight_gradient(CudaStream stream, WeightGradientArgs const& args) {
  if (args.bags.capacity == 0) {
    return;
  }
  with_id_type("embedding_weight_gradient", args.bags, [&]<class Id>(IdBags<Id> const& bags) {
    with_real_type("embedding_weight_gradient: a table", args.table_dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      bool const is_whole = allows_vectors(static_cast<T const*>(args.table), args.width, 4) &&
                            allows_vectors(args.output_gradient, args.width, 4);
      is_whole ? launch<T, Id, 4>(stream, args, bags) : launch<T, Id, 1>(stream, args, bags);
    });
  });
}

}  // namespace msstream::ops::kernels
