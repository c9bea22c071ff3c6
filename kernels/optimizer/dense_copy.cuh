// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/vector_map.cuh"
#include "optimizer/optimizer.hpp"

namespace msstream::ops::kernels {

/// Returns whether Quads can be loaded and stored in all arrays of an update.
inline bool quads_fit(DenseUpdate const& update) {
  return quads_fit(update.weight,
                   update.gradient,
                   update.state0,
                   update.state1,
                   static_cast<char const*>(update.copy));
}

/// Stores the calling thread's elements of a weight in the weight's copy, if it has one.
template <int Quads>
__device__ inline void store_copy(DenseUpdate const& update,
                                  QuadPlace<Quads> const& place,
                                  typename QuadPlace<Quads>::Values const& weight) {
  if (update.copy == nullptr) {
    return;
  }
  if (update.copy_dtype == DType::bfloat16) {
    place.store(static_cast<bfloat16*>(update.copy), weight);
  } else {
    place.store(static_cast<float16*>(update.copy), weight);
  }
}

/// Writes the calling thread's elements of the copy in a step that does not change the weight.
template <int Quads>
__device__ inline void copy_unchanged(DenseUpdate const& update, QuadPlace<Quads> const& place) {
  if (update.copy != nullptr) {
    store_copy(update, place, place.load(update.weight));
  }
}

}  // namespace msstream::ops::kernels
