// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/default_runtime.hpp>
#include <msstream/serve/inputs.hpp>
#include <msstream/tensor/tensor.hpp>

#include <functional>

namespace msstream::serve {

/// A model as an InferencePool calls it: a function from the inputs of a bucket to a tensor [rows,
/// outputs_per_row].
template <Runtime R = DefaultRuntime>
using Forward = std::function<Tensor<float, R>(Inputs<R> const&)>;

}  // namespace msstream::serve

namespace msstream::detail {

using AnyForward = serve::Forward<AnyRuntime>;

}  // namespace msstream::detail
