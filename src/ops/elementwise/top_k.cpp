// SPDX-License-Identifier: Apache-2.0
#include "elementwise/top_k.hpp"

#include "ops/common/workspace.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/reduce.hpp>
#include <msstream/tensor/issue.hpp>

#include <algorithm>
#include <cstdint>
#include <source_location>

namespace msstream::ops::detail {

TopK<AnyRuntime> top_k(Floats const& values, std::int64_t k, std::source_location issued_at) {
  auto const& shape = values.shape();
  require(shape.rank() == 2, "top_k: values of shape {}; expected [rows, columns]", shape);
  require(k >= 0 && k <= std::min(shape[1], kernels::kMostTop),
          "top_k: the greatest {} of rows of {} elements; expected at most all, and at most {}",
          k,
          shape[1],
          kernels::kMostTop);
  auto const& device = values.device();
  TopK<AnyRuntime> found{{device, {shape[0], k}}, {device, {shape[0], k}}};
  auto const workspace_bytes = ask_kernels(
      *device, [&](auto stream) { return kernels::top_k_workspace_bytes(stream, shape[1]); });
  Workspace const workspace(device, workspace_bytes);
  kernels::TopKArgs const args{values.data(),
                               shape[0],
                               shape[1],
                               k,
                               found.values.data(),
                               found.indices.data(),
                               workspace.data()};
  issue(
      "top_k",
      reads(values),
      workspace.with(writes(found.values, found.indices)),
      [args](auto stream) { kernels::top_k(stream, args); },
      {},
      issued_at);
  return found;
}

Floats top_k_gradient(Floats const& output_gradient,
                      TensorOf<std::int64_t> const& indices,
                      std::int64_t columns,
                      std::source_location issued_at) {
  auto const& shape = output_gradient.shape();
  require(shape.rank() == 2 && indices.shape() == shape && columns >= shape[1],
          "top_k_gradient: gradient of shape {}, indices of shape {} and {} columns; expected "
          "twice [rows, k] and at least k",
          shape,
          indices.shape(),
          columns);
  Floats gradient(output_gradient.device(), {shape[0], columns});
  kernels::TopKGradientArgs const args{
      output_gradient.data(), indices.data(), shape[0], columns, shape[1], gradient.data()};
  issue(
      "top_k_gradient",
      reads(output_gradient, indices),
      writes(gradient),
      [args](auto stream) { kernels::top_k_gradient(stream, args); },
      {},
      issued_at);
  return gradient;
}

}  // namespace msstream::ops::detail
