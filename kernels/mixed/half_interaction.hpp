// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dense/interaction.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

namespace msstream::ops::kernels {

/// Computes dot_interaction() of vectors of half precision. T is float16 or bfloat16. Sums are
/// float32, and each is rounded to T once. The order of the additions depends only on the number of
/// vectors and their width; on CUDA a tensor core adds 16 products at once.
template <HalfElement T>
void dot_interaction(HostStream stream, InteractionArgsOf<T> const& args);
template <HalfElement T>
void dot_interaction(CudaStream stream, InteractionArgsOf<T> const& args);

/// Computes dot_interaction_gradient() of vectors of half precision, as dot_interaction() does. On
/// CUDA, a vector's own elements enter its gradient with the factor 0, so one that is infinite or
/// NaN makes the gradient NaN.
template <HalfElement T>
void dot_interaction_gradient(HostStream stream, InteractionGradientArgsOf<T> const& args);
template <HalfElement T>
void dot_interaction_gradient(CudaStream stream, InteractionGradientArgsOf<T> const& args);

}  // namespace msstream::ops::kernels
