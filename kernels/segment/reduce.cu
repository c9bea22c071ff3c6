// SPDX-License-Identifier: Apache-2.0
#include "common/workspace_layout.hpp"
#include "ids/report_bad_bags.cuh"
#include "segment/atomics.hpp"
#include "segment/forms.hpp"
#include "segment/segment.hpp"
#include "segment/spans.hpp"
#include "segment/tuning.hpp"

#include <cstddef>
#include <optional>

namespace msstream::ops::kernels {
namespace {

bool adds_atomically(SegmentArgs const& args) {
  return args.layout.form == SegmentForm::unsorted_ids && !args.deterministic &&
         is_sum_reduction(args.reduction) &&
         atomics_are_faster(args.layout.capacity, args.layout.segments, args.width);
}

/// The workspace of a segment reduction, for each method of computing it.
struct ReductionMemory {
  std::optional<AtomicSumMemory> atomics;
  std::optional<SpansOfLayout> spans;
  void* span_workspace = nullptr;
  std::size_t bytes;

  ReductionMemory(void* memory, SegmentArgs const& args) {
    WorkspaceLayout workspace(memory);
    auto const& layout = args.layout;
    if (adds_atomically(args)) {
      atomics.emplace(workspace, args);
    } else {
      spans.emplace(workspace, layout);
      span_workspace =
          workspace.take_bytes(span_workspace_bytes(layout.capacity, layout.segments, args.width));
    }
    bytes = workspace.bytes();
  }
};

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
  return ReductionMemory(nullptr, args).bytes;
}

void segment_reduce(CudaStream stream, SegmentArgs const& args) {
  auto const& layout = args.layout;
  if (layout.segments == 0 || args.width == 0) {
    if (layout.form == SegmentForm::offsets) {
      auto const* const offsets = static_cast<std::int64_t const*>(layout.indices);
      report_bad_bags(stream,
                      "segment_reduce",
                      BagOffsets<std::int64_t>{offsets, layout.segments, layout.capacity},
                      layout.report);
    }
    return;
  }
  ReductionMemory const memory(args.workspace, args);
  if (memory.atomics) {
    add_atomically(stream, args, *memory.atomics);
    return;
  }
  auto const spans = memory.spans->make(stream);
  reduce(stream,
         args.reduction,
         {.values = args.values,
          .positions = spans.positions,
          .offsets = spans.offsets,
          .are_given = spans.are_given,
          .segments = layout.segments,
          .capacity = layout.capacity,
          .width = args.width,
          .reduction = args.reduction,
          .empty_value = args.empty_value,
          .report = layout.report,
          .output = args.output,
          .workspace = memory.span_workspace});
}

}  // namespace msstream::ops::kernels
