// SPDX-License-Identifier: Apache-2.0
#include "jagged/jagged_softmax.hpp"

#include "ops/common/offset_report.hpp"
#include "ops/common/workspace.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/common.hpp>
#include <msstream/ops/jagged.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <source_location>
#include <utility>

namespace msstream::ops::detail {
namespace {

void require_softmax_segments(char const* operation,
                              Shape const& values,
                              TensorOf<std::int64_t> const& offsets) {
  require((values.rank() == 1 || values.rank() == 2) && offsets.shape().rank() == 1 &&
              offsets.count() >= 1,
          "{}: values of shape {}, offsets of shape {}; expected [capacity] or [capacity, width], "
          "and [segments + 1]",
          operation,
          values,
          offsets.shape());
}

/// Returns the width of values [capacity] or [capacity, width].
std::int64_t width_of(Shape const& values) {
  return values.rank() == 2 ? values[1] : 1;
}

}  // namespace

Floats jagged_softmax(Floats const& values,
                      TensorOf<std::int64_t> const& offsets,
                      OffsetPolicy<AnyRuntime> const& policy,
                      std::source_location issued_at) {
  auto const& shape = values.shape();
  require_softmax_segments("jagged_softmax", shape, offsets);
  Floats output(values.device(), shape);
  auto written = writes(output);
  auto const report = offset_report("jagged_softmax", *values.device(), policy, written);
  Workspace const workspace(values.device(), ask_kernels(*values.device(), [&](auto stream) {
                              return kernels::jagged_softmax_workspace_bytes(
                                  stream, shape[0], width_of(shape));
                            }));
  kernels::JaggedSoftmaxArgs const args{values.data(),
                                        offsets.data(),
                                        offsets.count() - 1,
                                        shape[0],
                                        width_of(shape),
                                        output.data(),
                                        workspace.data(),
                                        report};
  issue(
      "jagged_softmax",
      reads(values, offsets),
      workspace.with(std::move(written)),
      [args](auto stream) { kernels::jagged_softmax(stream, args); },
      {},
      issued_at);
  return output;
}

Floats jagged_softmax_gradient(Floats const& output,
                               Floats const& output_gradient,
                               TensorOf<std::int64_t> const& offsets,
                               std::source_location issued_at) {
  auto const& shape = output.shape();
  require_softmax_segments("jagged_softmax_gradient", shape, offsets);
  require(output_gradient.shape() == shape,
          "jagged_softmax_gradient: {} and {}",
          shape,
          output_gradient.shape());
  Floats gradient(output.device(), shape);
  Workspace const workspace(output.device(), ask_kernels(*output.device(), [&](auto stream) {
                              return kernels::jagged_softmax_gradient_workspace_bytes(
                                  stream, shape[0], width_of(shape));
                            }));
  kernels::JaggedSoftmaxGradientArgs const args{output.data(),
                                                output_gradient.data(),
                                                offsets.data(),
                                                offsets.count() - 1,
                                                shape[0],
                                                width_of(shape),
                                                gradient.data(),
                                                workspace.data()};
  issue(
      "jagged_softmax_gradient",
      reads(output, output_gradient, offsets),
      workspace.with(writes(gradient)),
      [args](auto stream) { kernels::jagged_softmax_gradient(stream, args); },
      {},
      issued_at);
  return gradient;
}

}  // namespace msstream::ops::detail
