// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/id_trap.hpp>
#include <msstream/ops/kernels/softmax.hpp>
#include <msstream/ops/out_of_range.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>

namespace msstream::ops {

namespace detail {

/// The number of rows of a tensor and their length, which is the extent of its last dimension.
struct Rows {
  std::int64_t rows;
  std::int64_t columns;
};
inline Rows rows_of(char const* operation, Shape const& shape) {
  require(shape.rank() >= 1, operation, " of a scalar; expected at least one dimension");
  auto const columns = shape[shape.rank() - 1];
  std::int64_t rows = 1;
  for (std::size_t d = 0; d + 1 < shape.rank(); ++d) {
    rows *= shape[d];
  }
  return {rows, columns};
}

template <Runtime R>
[[nodiscard]] Tensor<float, R> softmax(Tensor<float, R> const& input,
                                       Tensor<std::int64_t, R> const* lengths,
                                       std::source_location issued_at) {
  auto const [rows, columns] = rows_of("softmax", input.shape());
  Tensor<float, R> output(input.device(), input.shape());
  kernels::SoftmaxArgs args{input.data(), output.data(), rows, columns};
  auto read = reads(input);
  if (lengths != nullptr) {
    auto const count = lengths->count();
    require(count == 0 ? rows == 0 : rows % count == 0,
            "softmax: lengths ",
            lengths->shape(),
            " for ",
            rows,
            " rows of ",
            input.shape(),
            "; expected a divisor of the rows");
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

}  // namespace detail

/// Returns exp(input) / sum of exp(input) over the last dimension of input [..., columns], float32.
/// The largest element is subtracted first, so that nothing overflows. A row is all NaN if it holds
/// NaN or +infinity, or nothing but -infinity. One launch; asynchronous; capture-safe;
/// deterministic. Throws std::invalid_argument for a scalar.
template <Runtime R>
[[nodiscard]] Tensor<float, R> softmax(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::softmax<R>(input, nullptr, issued_at);
}
/// Returns the softmax over the leading columns of each row only, as many as the row's length; the
/// other columns get 0, and a row of length 0 is all 0. `lengths` is read on the device, and each
/// length is clamped to [0, columns]. The number of lengths must divide the number of rows: each
/// length applies to a run of rows / lengths consecutive rows.
template <Runtime R>
[[nodiscard]] Tensor<float, R> softmax(
    Tensor<float, R> const& input,
    Tensor<std::int64_t, R> const& lengths,
    std::source_location issued_at = std::source_location::current()) {
  return detail::softmax(input, &lengths, issued_at);
}

/// Returns the gradient of softmax(), with or without lengths, from its output y and the output's
/// gradient dy: y * (dy - sum of y * dy), 0 wherever y is 0. One launch.
template <Runtime R>
[[nodiscard]] Tensor<float, R> softmax_gradient(
    Tensor<float, R> const& output,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  require(output.shape() == output_gradient.shape(),
          "softmax_gradient: ",
          output.shape(),
          " and ",
          output_gradient.shape());
  auto const [rows, columns] = detail::rows_of("softmax_gradient", output.shape());
  Tensor<float, R> gradient(output.device(), output.shape());
  kernels::SoftmaxGradientArgs const args{
      output.data(), output_gradient.data(), gradient.data(), rows, columns};
  issue(
      "softmax_gradient",
      reads(output, output_gradient),
      writes(gradient),
      [args](auto stream) { kernels::softmax_gradient(stream, args); },
      {},
      issued_at);
  return gradient;
}

/// The handling of a class outside [0, classes). The example's loss and gradients are 0 with every
/// policy.
template <Runtime R = DefaultRuntime>
struct CrossEntropyOptions {
  OutOfRange out_of_range = OutOfRange::drop;
  /// For OutOfRange::count: a device scalar that is incremented by the number of bad classes.
  std::optional<Tensor<std::int64_t, R>> bad_id_count = {};
};

/// The result of softmax_cross_entropy(): one loss per example, and the gradient of each loss with
/// respect to its logits.
template <Runtime R = DefaultRuntime>
struct CrossEntropyResult {
  Tensor<float, R> losses;     ///< [batch]
  Tensor<float, R> gradients;  ///< [batch, classes]: softmax(logits), less 1 at the class
};

/// Computes the cross-entropy of softmax(logits [batch, classes]) against one class per example,
/// [batch]: log(sum of exp(logits)) - logits[class], without overflow. Infinite logits give the
/// limit: a loss of 0 if only the class has +infinity, infinity if another class has +infinity or
/// the class has -infinity, and NaN if all logits are -infinity. One launch; asynchronous;
/// deterministic; capture-safe. Throws std::invalid_argument for bad shapes. With OutOfRange::trap
/// a class outside [0, classes) makes the next to_host() or PinnedArray::wait() throw
/// std::out_of_range.
template <Runtime R>
[[nodiscard]] CrossEntropyResult<R> softmax_cross_entropy(
    Tensor<float, R> const& logits,
    Tensor<std::int64_t, R> const& classes,
    CrossEntropyOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  auto const& shape = logits.shape();
  require(shape.rank() == 2 && classes.shape() == Shape{shape[0]},
          "softmax_cross_entropy: logits ",
          shape,
          ", classes ",
          classes.shape(),
          "; expected [batch, classes] and [batch]");
  CrossEntropyResult<R> result{{logits.device(), {shape[0]}}, {logits.device(), shape}};
  kernels::CrossEntropyArgs args{logits.data(),
                                 classes.data(),
                                 result.losses.data(),
                                 result.gradients.data(),
                                 shape[0],
                                 shape[1],
                                 {}};
  auto written = writes(result.losses, result.gradients);
  args.report = detail::id_report("softmax_cross_entropy",
                                  *logits.device(),
                                  options.out_of_range,
                                  options.bad_id_count,
                                  written);
  issue(
      "softmax_cross_entropy",
      reads(logits, classes),
      written,
      [args](auto stream) { kernels::softmax_cross_entropy(stream, args); },
      {},
      issued_at);
  return result;
}

}  // namespace msstream::ops
