// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding/embedding.hpp"
#include "step/recorded.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/ops/bags.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/ops/segment.hpp>
#include <msstream/step/differentiable/rows.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstdint>
#include <source_location>
#include <utility>

namespace msstream::ops::detail {

Floats gather_rows(AnyTape& tape,
                   AnyTensor const& table,
                   AnyTensor const& ids,
                   DeviceCount<AnyRuntime> const& count,
                   std::source_location issued_at) {
  auto gathered = gather_rows(NoTape(), table, ids, count, issued_at);
  if (!tape.wants_gradient(table)) {
    return gathered;
  }
  // Each id is a bag of its own, so that the gradient is that of a lookup.
  auto const bags = bags_of_one(ids, count);
  tape.note_input(table);
  tape.record_lookup(
      "gather_rows",
      table,
      bags,
      Pooling::sum,
      gathered,
      [table, bags, issued_at](AnyTape& playing, Floats const& gradient) {
        std::int64_t const rows = table.shape()[0];
        auto const rows_of_bags = gradient.reshaped({bags.bags(), table.shape()[1]});
        if (playing.take_pooled_gradient(table, rows_of_bags)) {
          return;
        }
        auto const& unique = playing.unique_rows(bags, rows, Pooling::sum, issued_at);
        playing.add_row_gradient(
            table,
            embedding_gradient(bags, unique, rows, Pooling::sum, rows_of_bags.any(), {}, issued_at),
            issued_at);
      },
      issued_at);
  return gathered;
}

Floats scatter_rows(AnyTape& tape,
                    Floats const& values,
                    AnyTensor const& ids,
                    std::int64_t rows,
                    DeviceCount<AnyRuntime> const& count,
                    std::source_location issued_at) {
  return recorded(
      tape,
      "scatter_rows",
      values,
      scatter_rows(NoTape(), values, ids, rows, count, issued_at),
      [ids, count, issued_at](Floats const& gradient) {
        return Floats(msstream::detail::OfKnownType(),
                      scatter_rows_gradient(gradient.any(), ids, count, issued_at));
      },
      issued_at);
}

Floats jagged_to_dense(AnyTape& tape,
                       Floats const& values,
                       TensorOf<std::int64_t> const& offsets,
                       std::int64_t max_length,
                       float padding,
                       OffsetPolicy<AnyRuntime> const& policy,
                       std::source_location issued_at) {
  return recorded(
      tape,
      "jagged_to_dense",
      values,
      jagged_to_dense(NoTape(), values, offsets, max_length, padding, policy, issued_at),
      [offsets, capacity = values.shape()[0], issued_at](Floats const& gradient) {
        return dense_to_jagged(NoTape(), gradient, offsets, capacity, {}, issued_at);
      },
      issued_at);
}

Floats dense_to_jagged(AnyTape& tape,
                       Floats const& dense,
                       TensorOf<std::int64_t> const& offsets,
                       std::int64_t capacity,
                       OffsetPolicy<AnyRuntime> const& policy,
                       std::source_location issued_at) {
  return recorded(
      tape,
      "dense_to_jagged",
      dense,
      dense_to_jagged(NoTape(), dense, offsets, capacity, policy, issued_at),
      [offsets, max_length = dense.shape()[1], issued_at](Floats const& gradient) {
        return jagged_to_dense(NoTape(), gradient, offsets, max_length, 0.0F, {}, issued_at);
      },
      issued_at);
}

Floats repeat_rows(AnyTape& tape,
                   Floats const& rows,
                   TensorOf<std::int64_t> const& offsets,
                   std::int64_t capacity,
                   OffsetPolicy<AnyRuntime> const& policy,
                   std::source_location issued_at) {
  return recorded(
      tape,
      "repeat_rows",
      rows,
      repeat_rows(NoTape(), rows, offsets, capacity, policy, issued_at),
      [offsets, shape = rows.shape(), issued_at](Floats const& gradient) {
        AnySegments const samples{offsets.any(), shape[0]};
        auto const width = shape.rank() == 2 ? shape[1] : 1;
        auto const of_rows = gradient.reshaped({gradient.shape()[0], width});
        return segment_reduce(of_rows, samples, SegmentReduction::sum, {}, issued_at)
            .reshaped(shape);
      },
      issued_at);
}

Floats jagged_softmax(AnyTape& tape,
                      Floats const& values,
                      TensorOf<std::int64_t> const& offsets,
                      OffsetPolicy<AnyRuntime> const& policy,
                      std::source_location issued_at) {
  auto const output = jagged_softmax(values, offsets, policy, issued_at);
  return recorded(
      tape,
      "jagged_softmax",
      values,
      output,
      [output, offsets, issued_at](Floats const& gradient) {
        return jagged_softmax_gradient(output, gradient, offsets, issued_at);
      },
      issued_at);
}

}  // namespace msstream::ops::detail
