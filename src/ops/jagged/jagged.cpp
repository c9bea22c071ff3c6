// SPDX-License-Identifier: Apache-2.0
#include "jagged/jagged.hpp"

#include "ops/common/offset_report.hpp"
#include "ops/common/row_bytes.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/ops/common.hpp>
#include <msstream/ops/jagged.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <source_location>

namespace msstream::ops::detail {
namespace {

void require_jagged_offsets(char const* operation, TensorOf<std::int64_t> const& offsets) {
  require(offsets.shape().rank() == 1 && offsets.count() >= 1,
          "{}: offsets of shape {}; expected [batch + 1]",
          operation,
          offsets.shape());
}

}  // namespace

AnyTensor jagged_to_dense(AnyTensor const& values,
                          TensorOf<std::int64_t> const& offsets,
                          std::int64_t max_length,
                          std::uint64_t padding_bits,
                          OffsetPolicy<AnyRuntime> const& policy,
                          std::source_location issued_at) {
  auto const& shape = values.shape();
  require_jagged_offsets("jagged_to_dense", offsets);
  require((shape.rank() == 1 || shape.rank() == 2) && max_length >= 0,
          "jagged_to_dense: values of shape {} and a length of {}; expected [capacity] or "
          "[capacity, width] and at least 0",
          shape,
          max_length);
  auto const batch = offsets.count() - 1;
  auto const width = shape.rank() == 2 ? shape[1] : 1;
  AnyTensor dense(values.device(),
                  values.dtype(),
                  shape.rank() == 2 ? Shape{batch, max_length, width} : Shape{batch, max_length});
  auto written = writes(dense);
  kernels::JaggedToDenseArgs const args{
      {offsets.data(),
       batch,
       shape[0],
       max_length,
       row_bytes_of(values, width),
       offset_report("jagged_to_dense", *values.device(), policy, written)},
      values.data(),
      padding_bits,
      bytes_of(values.dtype()),
      dense.data()};
  issue(
      "jagged_to_dense",
      reads(values, offsets),
      written,
      [args](auto stream) { kernels::jagged_to_dense(stream, args); },
      {},
      issued_at);
  return dense;
}

AnyTensor dense_to_jagged(AnyTensor const& dense,
                          TensorOf<std::int64_t> const& offsets,
                          std::int64_t capacity,
                          OffsetPolicy<AnyRuntime> const& policy,
                          std::source_location issued_at) {
  auto const& shape = dense.shape();
  require_jagged_offsets("dense_to_jagged", offsets);
  auto const batch = offsets.count() - 1;
  require((shape.rank() == 2 || shape.rank() == 3) && shape[0] == batch && capacity >= 0,
          "dense_to_jagged: dense of shape {}, offsets of shape {} and a capacity of {}; expected "
          "[batch, max_length] or [batch, max_length, width] and [batch + 1]",
          shape,
          offsets.shape(),
          capacity);
  auto const width = shape.rank() == 3 ? shape[2] : 1;
  AnyTensor values(
      dense.device(), dense.dtype(), shape.rank() == 3 ? Shape{capacity, width} : Shape{capacity});
  auto written = writes(values);
  kernels::DenseToJaggedArgs const args{
      {offsets.data(),
       batch,
       capacity,
       shape[1],
       row_bytes_of(dense, width),
       offset_report("dense_to_jagged", *dense.device(), policy, written)},
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

AnyTensor repeat_rows(AnyTensor const& rows,
                      TensorOf<std::int64_t> const& offsets,
                      std::int64_t capacity,
                      OffsetPolicy<AnyRuntime> const& policy,
                      std::source_location issued_at) {
  auto const& shape = rows.shape();
  require_jagged_offsets("repeat_rows", offsets);
  auto const samples = offsets.count() - 1;
  require((shape.rank() == 1 || shape.rank() == 2) && shape[0] == samples && capacity >= 0,
          "repeat_rows: rows of shape {}, offsets of shape {} and a capacity of {}; expected "
          "[samples] or [samples, width], [samples + 1] and at least 0",
          shape,
          offsets.shape(),
          capacity);
  auto const width = shape.rank() == 2 ? shape[1] : 1;
  AnyTensor output(
      rows.device(), rows.dtype(), shape.rank() == 2 ? Shape{capacity, width} : Shape{capacity});
  auto written = writes(output);
  kernels::RepeatRowsArgs const args{
      {offsets.data(),
       samples,
       capacity,
       capacity,
       row_bytes_of(rows, width),
       offset_report("repeat_rows", *rows.device(), policy, written)},
      rows.data(),
      output.data()};
  issue(
      "repeat_rows",
      reads(rows, offsets),
      written,
      [args](auto stream) { kernels::repeat_rows(stream, args); },
      {},
      issued_at);
  return output;
}

TensorOf<std::int64_t> segment_ids(TensorOf<std::int64_t> const& offsets,
                                   std::int64_t capacity,
                                   OffsetPolicy<AnyRuntime> const& policy,
                                   std::source_location issued_at) {
  require_jagged_offsets("segment_ids", offsets);
  require(capacity >= 0, "segment_ids: a capacity of {}; expected at least 0", capacity);
  TensorOf<std::int64_t> ids(offsets.device(), Shape{capacity});
  auto written = writes(ids);
  kernels::SegmentIdsArgs const args{
      {offsets.data(),
       offsets.count() - 1,
       capacity,
       capacity,
       sizeof(std::int64_t),
       offset_report("segment_ids", *offsets.device(), policy, written)},
      ids.data()};
  issue(
      "segment_ids",
      reads(offsets),
      written,
      [args](auto stream) { kernels::segment_ids(stream, args); },
      {},
      issued_at);
  return ids;
}

}  // namespace msstream::ops::detail
