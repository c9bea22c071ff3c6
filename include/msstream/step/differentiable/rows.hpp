// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/common.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/gather.hpp>
#include <msstream/ops/jagged.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/no_tape.hpp>

#include <cstdint>
#include <source_location>
#include <type_traits>

/// Differentiable forms of operations that move rows of tensors, with a GradientTape or
/// NoTape as first argument. Each gives the result of the operation without a tape, and the tape
/// records the backward.
namespace msstream::ops {

namespace detail {

// The implementations of the differentiable gather_rows(), scatter_rows(), jagged_to_dense(),
// dense_to_jagged(), repeat_rows() and jagged_softmax(), compiled once for all runtimes.

[[nodiscard]] Floats gather_rows(AnyTape& tape,
                                 AnyTensor const& table,
                                 AnyTensor const& ids,
                                 DeviceCount<AnyRuntime> const& count,
                                 std::source_location issued_at);
[[nodiscard]] Floats scatter_rows(AnyTape& tape,
                                  Floats const& values,
                                  AnyTensor const& ids,
                                  std::int64_t rows,
                                  DeviceCount<AnyRuntime> const& count,
                                  std::source_location issued_at);
[[nodiscard]] Floats jagged_to_dense(AnyTape& tape,
                                     Floats const& values,
                                     TensorOf<std::int64_t> const& offsets,
                                     std::int64_t max_length,
                                     float padding,
                                     OffsetPolicy<AnyRuntime> const& policy,
                                     std::source_location issued_at);
[[nodiscard]] Floats dense_to_jagged(AnyTape& tape,
                                     Floats const& dense,
                                     TensorOf<std::int64_t> const& offsets,
                                     std::int64_t capacity,
                                     OffsetPolicy<AnyRuntime> const& policy,
                                     std::source_location issued_at);
[[nodiscard]] Floats repeat_rows(AnyTape& tape,
                                 Floats const& rows,
                                 TensorOf<std::int64_t> const& offsets,
                                 std::int64_t capacity,
                                 OffsetPolicy<AnyRuntime> const& policy,
                                 std::source_location issued_at);
[[nodiscard]] Floats jagged_softmax(AnyTape& tape,
                                    Floats const& values,
                                    TensorOf<std::int64_t> const& offsets,
                                    OffsetPolicy<AnyRuntime> const& policy,
                                    std::source_location issued_at);

// The forms for NoTape, which are the operations without a tape.

[[nodiscard]] inline Floats gather_rows(NoTape,
                                        AnyTensor const& table,
                                        AnyTensor const& ids,
                                        DeviceCount<AnyRuntime> const& count,
                                        std::source_location issued_at) {
  return gather_floats(table, ids, count, issued_at);
}
[[nodiscard]] inline Floats scatter_rows(NoTape,
                                         Floats const& values,
                                         AnyTensor const& ids,
                                         std::int64_t rows,
                                         DeviceCount<AnyRuntime> const& count,
                                         std::source_location issued_at) {
  return Floats(msstream::detail::OfKnownType(),
                scatter_rows(values.any(), ids, rows, count, issued_at));
}
[[nodiscard]] inline Floats jagged_to_dense(NoTape,
                                            Floats const& values,
                                            TensorOf<std::int64_t> const& offsets,
                                            std::int64_t max_length,
                                            float padding,
                                            OffsetPolicy<AnyRuntime> const& policy,
                                            std::source_location issued_at) {
  return Floats(
      msstream::detail::OfKnownType(),
      jagged_to_dense(values.any(), offsets, max_length, bits_of(padding), policy, issued_at));
}
[[nodiscard]] inline Floats dense_to_jagged(NoTape,
                                            Floats const& dense,
                                            TensorOf<std::int64_t> const& offsets,
                                            std::int64_t capacity,
                                            OffsetPolicy<AnyRuntime> const& policy,
                                            std::source_location issued_at) {
  return Floats(msstream::detail::OfKnownType(),
                dense_to_jagged(dense.any(), offsets, capacity, policy, issued_at));
}
[[nodiscard]] inline Floats repeat_rows(NoTape,
                                        Floats const& rows,
                                        TensorOf<std::int64_t> const& offsets,
                                        std::int64_t capacity,
                                        OffsetPolicy<AnyRuntime> const& policy,
                                        std::source_location issued_at) {
  return Floats(msstream::detail::OfKnownType(),
                repeat_rows(rows.any(), offsets, capacity, policy, issued_at));
}
template <class... Args>
[[nodiscard]] Floats jagged_softmax(NoTape, Args const&... args) {
  return jagged_softmax(args...);
}

}  // namespace detail

/// Returns the rows of `table` that `ids` name, as gather_rows() without a tape does, but in
/// float32 for tables of float16 and bfloat16 too; the tape records the backward. The gradient of
/// the table is row-sparse and float32: see GradientTape::row_gradients(). Throws
/// std::invalid_argument for bad shapes and for tables of other types.
template <Element T, IdElement I, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> gather_rows(
    Tape& tape,
    Tensor<T, R> const& table,
    Tensor<I, R> const& ids,
    DeviceCount<R> const& count = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::gather_rows(tape, table.any(), ids.any(), count, issued_at));
}

/// Returns ops::scatter_rows(); each row of `values` that was written gets a gradient.
template <IdElement I, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> scatter_rows(
    Tape& tape,
    Tensor<float, R> const& values,
    Tensor<I, R> const& ids,
    std::int64_t rows,
    DeviceCount<R> const& count = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::scatter_rows(tape, values, ids.any(), rows, count, issued_at));
}

/// Returns ops::jagged_to_dense(); rows of no sample, and beyond max_length, get gradients of 0.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> jagged_to_dense(
    Tape& tape,
    Tensor<float, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    std::int64_t max_length,
    float padding = 0.0F,
    std::type_identity_t<OffsetPolicy<R>> const& policy = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::jagged_to_dense(tape, values, offsets, max_length, padding, policy, issued_at));
}

/// Returns ops::dense_to_jagged(); rows beyond the length of their sample get gradients of 0.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> dense_to_jagged(
    Tape& tape,
    Tensor<float, R> const& dense,
    Tensor<std::int64_t, R> const& offsets,
    std::int64_t capacity,
    std::type_identity_t<OffsetPolicy<R>> const& policy = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::dense_to_jagged(tape, dense, offsets, capacity, policy, issued_at));
}

/// Returns ops::repeat_rows(); the gradient of a row is the sum over its repetitions.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> repeat_rows(
    Tape& tape,
    Tensor<float, R> const& rows,
    Tensor<std::int64_t, R> const& offsets,
    std::int64_t capacity,
    std::type_identity_t<OffsetPolicy<R>> const& policy = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::repeat_rows(tape, rows, offsets, capacity, policy, issued_at));
}

/// Returns ops::jagged_softmax() over each sample; the tape records the backward.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> jagged_softmax(
    Tape& tape,
    Tensor<float, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    std::type_identity_t<OffsetPolicy<R>> const& policy = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::jagged_softmax(tape, values, offsets, policy, issued_at));
}

}  // namespace msstream::ops
