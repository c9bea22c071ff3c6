// SPDX-License-Identifier: Apache-2.0
#include "elementwise/softmax.hpp"

#include "ops/common/id_trap.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/ops/loss.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>

namespace msstream::ops::detail {
namespace {

/// The shape of a tensor seen as rows: the number of rows, and their length, which is the extent of
/// the last dimension.
struct Rows {
  std::int64_t rows;
  std::int64_t columns;
};
[[nodiscard]] Rows rows_of(char const* operation, Shape const& shape) {
  require(shape.rank() >= 1, "{} of a scalar; expected at least one dimension", operation);
  auto const columns = shape[shape.rank() - 1];
  std::int64_t rows = 1;
  for (std::size_t d = 0; d + 1 < shape.rank(); ++d) {
    rows *= shape[d];
  }
  return {rows, columns};
}

}  // namespace

AnyTensor softmax(AnyTensor const& input,
                  TensorOf<std::int64_t> const* lengths,
                  DType to,
                  std::source_location issued_at) {
  auto const [rows, columns] = rows_of("softmax", input.shape());
  AnyTensor output(input.device(), to, input.shape());
  kernels::SoftmaxArgs args{input.data(), output.data(), rows, columns};
  args.dtype = to;
  args.input_dtype = input.dtype();
  auto read = reads(input);
  if (lengths != nullptr) {
    auto const count = lengths->count();
    require(count == 0 ? rows == 0 : rows % count == 0,
            "softmax: lengths {} for {} rows of {}; expected a divisor of the rows",
            lengths->shape(),
            rows,
            input.shape());
    args.lengths = lengths->data();
    args.rows_a_length = count == 0 ? 1 : rows / count;
    read.add(*lengths);
  }
  issue(
      "softmax",
      read,
      writes(output),
      [args](auto stream) { kernels::softmax(stream, args); },
      {},
      issued_at);
  return output;
}

Floats softmax(Floats const& input, std::source_location issued_at) {
  return {msstream::detail::OfKnownType(),
          softmax(input.any(), nullptr, DType::float32, issued_at)};
}

Floats softmax(Floats const& input,
               TensorOf<std::int64_t> const& lengths,
               std::source_location issued_at) {
  return {msstream::detail::OfKnownType(),
          softmax(input.any(), &lengths, DType::float32, issued_at)};
}

AnyTensor softmax_gradient(AnyTensor const& output,
                           AnyTensor const& output_gradient,
                           std::source_location issued_at) {
  require(output.shape() == output_gradient.shape() && output.dtype() == output_gradient.dtype(),
          "softmax_gradient: {} and {}",
          output.shape(),
          output_gradient.shape());
  auto const [rows, columns] = rows_of("softmax_gradient", output.shape());
  AnyTensor gradient(output.device(), output.dtype(), output.shape());
  kernels::SoftmaxGradientArgs const args{
      output.data(), output_gradient.data(), gradient.data(), rows, columns, output.dtype()};
  issue(
      "softmax_gradient",
      reads(output, output_gradient),
      writes(gradient),
      [args](auto stream) { kernels::softmax_gradient(stream, args); },
      {},
      issued_at);
  return gradient;
}

Floats softmax_gradient(Floats const& output,
                        Floats const& output_gradient,
                        std::source_location issued_at) {
  return {msstream::detail::OfKnownType(),
          softmax_gradient(output.any(), output_gradient.any(), issued_at)};
}

CountedCrossEntropy counted_cross_entropy(char const* operation,
                                          AnyTensor const& logits,
                                          TensorOf<std::int64_t> const& classes,
                                          CrossEntropyOptions<AnyRuntime> const& options,
                                          DType gradient_dtype,
                                          std::source_location issued_at) {
  auto const& shape = logits.shape();
  require(shape.rank() == 2 && classes.shape() == Shape{shape[0]},
          "{}: logits {}, classes {}; expected [batch, classes] and [batch]",
          operation,
          shape,
          classes.shape());
  require(options.label_smoothing >= 0.0F && options.label_smoothing <= 1.0F,
          "{}: a label_smoothing of {}; expected 0 to 1",
          operation,
          options.label_smoothing);
  auto const& weight = options.sample_weight;
  auto const& ids = options.candidate_ids;
  require(!weight || weight->shape() == Shape{shape[0]},
          "{}: a sample_weight of shape {}; expected [batch] = [{}]",
          operation,
          weight ? weight->shape() : Shape{},
          shape[0]);
  require(!ids || ids->shape() == Shape{shape[1]},
          "{}: candidate_ids of shape {}; expected [classes] = [{}]",
          operation,
          ids ? ids->shape() : Shape{},
          shape[1]);
  require(!ids || options.label_smoothing == 0.0F,
          "{}: candidate_ids with a label_smoothing of {}; expected 0, as the number of classes "
          "then differs among the examples",
          operation,
          options.label_smoothing);
  auto const& device = logits.device();
  CountedCrossEntropy found{{{device, {shape[0]}}, {device, gradient_dtype, shape}}, {}};
  kernels::CrossEntropyArgs args{logits.data(),
                                 classes.data(),
                                 found.result.losses.data(),
                                 found.result.gradients.data(),
                                 shape[0],
                                 shape[1],
                                 {},
                                 options.label_smoothing};
  args.dtype = logits.dtype();
  args.gradient_dtype = gradient_dtype;
  auto written = writes(found.result.losses, found.result.gradients);
  auto read = reads(logits, classes);
  if (weight) {
    args.weights = weight->data();
    args.counts_weights = options.reduction == LossReduction::weighted_mean;
    read.add(*weight);
  }
  if (ids) {
    args.candidates = ids->data();
    read.add(*ids);
  }
  args.ignores = options.ignore_index.has_value();
  args.ignored = options.ignore_index.value_or(0);
  if (args.ignores || args.counts_weights) {
    found.counted.emplace(device, Shape{shape[0]});
    args.counted = found.counted->data();
    written.add(*found.counted);
  }
  args.report = id_report(operation, *device, options.out_of_range, options.bad_id_count, written);
  issue(
      operation,
      read,
      written,
      [args](auto stream) { kernels::softmax_cross_entropy(stream, args); },
      {},
      issued_at);
  return found;
}

}  // namespace msstream::ops::detail
