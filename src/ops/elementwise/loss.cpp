// SPDX-License-Identifier: Apache-2.0
#include "elementwise/elementwise.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/loss.hpp>
#include <msstream/tensor/issue.hpp>

#include <source_location>

namespace msstream::ops::detail {

BceResult<AnyRuntime> bce_with_logits(Floats const& logits,
                                      Floats const& labels,
                                      std::source_location issued_at) {
  require(logits.shape() == labels.shape(),
          "bce_with_logits: logits {}, labels {}; expected one shape",
          logits.shape(),
          labels.shape());
  BceResult<AnyRuntime> result{{logits.device(), logits.shape()},
                               {logits.device(), logits.shape()}};
  kernels::BceArgs const args{
      logits.data(), labels.data(), result.losses.data(), result.gradients.data(), logits.count()};
  issue(
      "bce_with_logits",
      reads(logits, labels),
      writes(result.losses, result.gradients),
      [args](auto stream) { kernels::bce_with_logits(stream, args); },
      {},
      issued_at);
  return result;
}

Floats scale_by_scalar(Floats const& input,
                       Floats const& scalar,
                       float factor,
                       std::source_location issued_at) {
  require(scalar.count() == 1, "scale_by_scalar: a scalar of shape {}", scalar.shape());
  Floats output(input.device(), input.shape());
  issue(
      "scale_by_scalar",
      reads(input, scalar),
      writes(output),
      [source = input.data(),
       value = scalar.data(),
       factor,
       target = output.data(),
       count = input.count()](auto stream) {
        kernels::scale_by_scalar(stream, source, value, factor, target, count);
      },
      {},
      issued_at);
  return output;
}

}  // namespace msstream::ops::detail
