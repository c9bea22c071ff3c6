// SPDX-License-Identifier: Apache-2.0
#include "cub_baselines.hpp"
#include "operations.hpp"

#include <cstdint>
#include <stdexcept>

namespace benchmarks::shapes {

namespace {

namespace ops = ms::ops;
using ops::SegmentIds;
using ops::SegmentReduction;

SegmentReduction reduction_of(Operation operation) {
  switch (operation) {
    case Operation::segment_mean:
    case Operation::segment_mean_gradient:
      return SegmentReduction::mean;
    case Operation::segment_max:
    case Operation::segment_max_gradient:
      return SegmentReduction::max;
    default:
      return SegmentReduction::sum;
  }
}

Prepared prepare_reduction(Workplace& workplace, Case const& what) {
  auto const& device = workplace.device();
  auto const values = drawn_rows<float>(device, what.places(), what.width);
  auto const offsets = offsets_of<std::int64_t>(device, what);
  auto const reduction = reduction_of(what.operation);
  Prepared prepared{
      [=] { benchmark::DoNotOptimize(ops::segment_reduce(values, offsets, reduction)); },
      {},
      bytes_of(what, {})};
  if (what.width == 1 && reduction != SegmentReduction::mean) {
    Tensor<float> const reduced(device, {what.segments});
    auto* const algorithm = reduction == SegmentReduction::max ? cub_max : cub_sum;
    prepared.cub = [=, &workplace] {
      algorithm(workplace.cub,
                {values.data(), offsets.data(), what.segments, reduced.data()},
                workplace.stream());
    };
  }
  return prepared;
}

/// Prepares sums of segments that are given by an id for each row.
template <class Id>
Prepared prepare_by_ids(Workplace& workplace, Case const& what) {
  auto const& device = workplace.device();
  auto const values = drawn_rows<float>(device, what.places(), what.width);
  bool const is_sorted = what.operation == Operation::segment_sum_sorted;
  auto const ids =
      is_sorted
          ? ops::cast_ids<Id>(ops::IdTensor<ms::Cuda>(
                ops::segment_ids(offsets_of<std::int64_t>(device, what), what.places())))
          : drawn_ids<Id>(device, {what.places()}, {.below = what.segments, .skew = what.skew});
  ops::Segments<ms::Cuda> const segments(
      ids, what.segments, is_sorted ? SegmentIds::sorted : SegmentIds::unsorted);
  return {[=] {
            benchmark::DoNotOptimize(ops::segment_reduce(values, segments, SegmentReduction::sum));
          },
          {},
          bytes_of(what, {})};
}

Prepared prepare_segment_gradient(Workplace& workplace, Case const& what) {
  auto const& device = workplace.device();
  auto const offsets = offsets_of<std::int64_t>(device, what);
  auto const gradient = drawn_rows<float>(device, what.segments, what.width);
  auto const reduction = reduction_of(what.operation);
  ops::SegmentForward<ms::Cuda> forward(what.places());
  if (reduction == SegmentReduction::max) {
    auto const values = drawn_rows<float>(device, what.places(), what.width);
    forward = {values, ops::segment_reduce(values, offsets, reduction)};
  }
  return {[=] {
            benchmark::DoNotOptimize(
                ops::segment_reduce_gradient(gradient, offsets, forward, reduction));
          },
          {},
          bytes_of(what, {})};
}

Prepared prepare_softmax(Workplace& workplace, Case const& what) {
  auto const& device = workplace.device();
  auto const values = drawn_rows<float>(device, what.places(), what.width);
  auto const offsets = offsets_of<std::int64_t>(device, what);
  if (what.operation == Operation::segment_softmax) {
    return {[=] { benchmark::DoNotOptimize(ops::jagged_softmax(values, offsets)); },
            {},
            bytes_of(what, {})};
  }
  auto const output = ops::jagged_softmax(values, offsets);
  return {[=] { benchmark::DoNotOptimize(ops::jagged_softmax_gradient(output, values, offsets)); },
          {},
          bytes_of(what, {})};
}

}  // namespace

Prepared prepare_segments(Workplace& workplace, Case const& what) {
  switch (what.operation) {
    case Operation::segment_sum:
    case Operation::segment_mean:
    case Operation::segment_max:
      return prepare_reduction(workplace, what);
    case Operation::segment_sum_sorted:
    case Operation::segment_sum_unsorted:
      return with_id_type(what, [&]<class Id>(std::type_identity<Id>) {
        return prepare_by_ids<Id>(workplace, what);
      });
    case Operation::segment_sum_gradient:
    case Operation::segment_mean_gradient:
    case Operation::segment_max_gradient:
      return prepare_segment_gradient(workplace, what);
    case Operation::segment_softmax:
    case Operation::segment_softmax_gradient:
      return prepare_softmax(workplace, what);
    default:
      throw std::invalid_argument("shapes_sweep: an operation that is none on segments");
  }
}

}  // namespace benchmarks::shapes
