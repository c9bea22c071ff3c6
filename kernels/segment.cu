// SPDX-License-Identifier: Apache-2.0
#include "segment_atomics.hpp"
#include "segment_forms.hpp"
#include "segment_math.hpp"
#include "segment_spans.hpp"
#include "segment_tuning.hpp"
#include "workspace_layout.hpp"

#include <msstream/ops/kernels/segment.hpp>

namespace msstream::ops::kernels {
namespace {

bool adds_atomically(SegmentArgs const& args) {
  return args.layout.form == SegmentForm::unsorted_ids && !args.deterministic &&
         is_sum_reduction(args.reduction) &&
         atomics_are_faster(args.layout.capacity, args.layout.segments, args.width);
}

void reduce(CudaStream stream, SegmentReduction reduction, SpanArgs const& spans) {
  if (is_sum_reduction(reduction)) {
    sum_spans(stream, spans);
  } else if (is_extremum_reduction(reduction)) {
    extrema_of_spans(stream, spans);
  } else {
    multiply_spans(stream, spans);
  }
}

}  // namespace

std::size_t segment_reduce_workspace_bytes(CudaStream, SegmentArgs const& args) {
  WorkspaceLayout workspace(nullptr);
  if (adds_atomically(args)) {
    AtomicSumMemory(workspace, args);
    return workspace.bytes();
  }
  SpansOfLayout(workspace, args.layout);
  return workspace.bytes() +
         span_workspace_bytes(args.layout.capacity, args.layout.segments, args.width);
}

void segment_reduce(CudaStream stream, SegmentArgs const& args) {
  if (args.layout.segments == 0 || args.width == 0) {
    return;
  }
  WorkspaceLayout workspace(args.workspace);
  if (adds_atomically(args)) {
    add_atomically(stream, args, AtomicSumMemory(workspace, args));
    return;
  }
  auto const spans = SpansOfLayout(workspace, args.layout).make(stream);
  reduce(stream,
         args.reduction,
         {.values = args.values,
          .positions = spans.positions,
          .offsets = spans.offsets,
          .segments = args.layout.segments,
          .capacity = args.layout.capacity,
          .width = args.width,
          .reduction = args.reduction,
          .empty_value = args.empty_value,
          .output = args.output,
          .workspace = workspace.rest()});
}

}  // namespace msstream::ops::kernels
