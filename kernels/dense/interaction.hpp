// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// The most columns whose products a dot product adds one after the other. The sums of such parts
/// are added one after the other too.
inline constexpr int kColumnsOfPart = 32;

/// Returns the number of pairs of `vectors` distinct vectors.
MSSTREAM_HOST_DEVICE constexpr std::int64_t pairs_of(std::int64_t vectors) {
  return vectors * (vectors - 1) / 2;
}
/// Returns the number of the pair of vectors i > j: pairs are numbered row by row of the lower
/// triangle.
MSSTREAM_HOST_DEVICE constexpr std::int64_t pair_number(std::int64_t i, std::int64_t j) {
  return i * (i - 1) / 2 + j;
}

/// Computes for each sample the dense vector, followed by the dot products of all pairs of vectors:
/// vector 0 is the dense one, vector f + 1 is that of feature f, and pair (i, j), i > j, has the
/// number pair_number(i, j).
template <class T>
struct InteractionArgsOf {
  T const* dense;       ///< [batch, width]
  T const* embeddings;  ///< [batch, features, width]
  T* output;            ///< [batch, width + pairs_of(features + 1)]
  std::int64_t batch;
  std::int64_t features;
  std::int64_t width;
};
using InteractionArgs = InteractionArgsOf<float>;
void dot_interaction(HostStream stream, InteractionArgs const& args);
void dot_interaction(CudaStream stream, InteractionArgs const& args);

/// Computes the gradients of dot_interaction(): that of vector i is the sum over the other vectors
/// j, ascending, of the gradient of their product times vector j; for the dense vector, plus the
/// gradient of its copy.
template <class T>
struct InteractionGradientArgsOf {
  T const* dense;
  T const* embeddings;
  T const* output_gradient;
  T* dense_gradient;       ///< null if not wanted
  T* embeddings_gradient;  ///< null if not wanted
  std::int64_t batch;
  std::int64_t features;
  std::int64_t width;
};
using InteractionGradientArgs = InteractionGradientArgsOf<float>;
void dot_interaction_gradient(HostStream stream, InteractionGradientArgs const& args);
void dot_interaction_gradient(CudaStream stream, InteractionGradientArgs const& args);

}  // namespace msstream::ops::kernels
