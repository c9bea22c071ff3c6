// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/offset_policy.hpp>

#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

namespace msstream::ops {

/// Copies jagged samples to dense rows: values [capacity, width] or [capacity], of any element type
/// → [batch, max_length, width] or [batch, max_length]. Sample b has the rows [offsets[b],
/// offsets[b + 1]). A sample whose offsets do not ascend within [0, capacity] has no rows, in the
/// operation and in its gradient, and is reported as `policy` says. Samples never share a row.
///
/// A sample shorter than max_length is followed by `padding`; the rows of a longer one from
/// max_length on are dropped. Deterministic; one launch, whose size depends on the capacities
/// alone; asynchronous; capture-safe. The gradient is dense_to_jagged() of the output's gradient.
/// Throws std::invalid_argument for bad shapes.
template <Element T, Runtime R>
[[nodiscard]] Tensor<T, R> jagged_to_dense(
    Tensor<T, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    std::int64_t max_length,
    T padding = {},
    std::type_identity_t<OffsetPolicy<R>> const& policy = {},
    std::source_location issued_at = std::source_location::current()) {
  auto const& shape = values.shape();
  detail::require_jagged_offsets("jagged_to_dense", offsets);
  require((shape.rank() == 1 || shape.rank() == 2) && max_length >= 0,
          "jagged_to_dense: values of shape ",
          shape,
          " and a length of ",
          max_length,
          "; expected [capacity] or [capacity, width] and at least 0");
  auto const batch = offsets.count() - 1;
  auto const width = shape.rank() == 2 ? shape[1] : 1;
  Tensor<T, R> dense(
      values.device(),
      shape.rank() == 2 ? Shape{batch, max_length, width} : Shape{batch, max_length});
  auto written = writes(dense);
  kernels::JaggedToDenseArgs args{
      {offsets.data(),
       batch,
       shape[0],
       max_length,
       width * static_cast<std::int64_t>(sizeof(T)),
       detail::offset_report("jagged_to_dense", *values.device(), policy, written)},
      values.data(),
      0,
      sizeof(T),
      dense.data()};
  std::memcpy(&args.padding_bits, &padding, sizeof(T));
  issue(
      "jagged_to_dense",
      reads(values, offsets),
      written,
      [args](auto stream) { kernels::jagged_to_dense(stream, args); },
      {},
      issued_at);
  return dense;
}

/// Copies dense rows to jagged samples that are stored one after the other: dense [batch,
/// max_length, width] or [batch, max_length], of any element type → [capacity, width] or
/// [capacity]. Sample b receives the rows [offsets[b], offsets[b + 1]); the last offset is at most
/// the capacity. A sample whose offsets do not ascend within [0, capacity] receives no rows, in the
/// operation and in its gradient, and is reported as `policy` says.
///
/// Rows of `dense` beyond a sample's length are dropped. Output rows of a sample beyond max_length,
/// and output rows of no sample, are 0. Deterministic; one launch; asynchronous; capture-safe. The
/// gradient is jagged_to_dense() of the output's gradient. Throws std::invalid_argument for bad
/// shapes.
template <Element T, Runtime R>
[[nodiscard]] Tensor<T, R> dense_to_jagged(
    Tensor<T, R> const& dense,
    Tensor<std::int64_t, R> const& offsets,
    std::int64_t capacity,
    std::type_identity_t<OffsetPolicy<R>> const& policy = {},
    std::source_location issued_at = std::source_location::current()) {
  auto const& shape = dense.shape();
  detail::require_jagged_offsets("dense_to_jagged", offsets);
  auto const batch = offsets.count() - 1;
  require((shape.rank() == 2 || shape.rank() == 3) && shape[0] == batch && capacity >= 0,
          "dense_to_jagged: dense of shape ",
          shape,
          ", offsets of shape ",
          offsets.shape(),
          " and a capacity of ",
          capacity,
          "; expected [batch, max_length] or [batch, max_length, width] and [batch + 1]");
  auto const width = shape.rank() == 3 ? shape[2] : 1;
  Tensor<T, R> values(dense.device(), shape.rank() == 3 ? Shape{capacity, width} : Shape{capacity});
  auto written = writes(values);
  kernels::DenseToJaggedArgs const args{
      {offsets.data(),
       batch,
       capacity,
       shape[1],
       width * static_cast<std::int64_t>(sizeof(T)),
       detail::offset_report("dense_to_jagged", *dense.device(), policy, written)},
      dense.data(),
      values.data()};
  issue(
      "dense_to_jagged",
      reads(dense, offsets),
      written,
      [args](auto stream) { kernels::dense_to_jagged(stream, args); },
      {},
      issued_at);
  return values;
}

}  // namespace msstream::ops
