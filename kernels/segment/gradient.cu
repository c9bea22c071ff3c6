// SPDX-License-Identifier: Apache-2.0
#include "common/workspace_layout.hpp"
#include "segment/atomics.hpp"
#include "segment/forms.hpp"
#include "segment/gradient.cuh"
#include "segment/segment.hpp"
#include "segment/spans.hpp"

#include <optional>

namespace msstream::ops::kernels {
namespace {

/// The workspace of the gradient of a segment reduction.
struct GradientMemory {
  std::optional<SpansOfLayout> spans;
  std::uint32_t* rows = nullptr;     ///< [segments]: number of rows, for unsorted ids
  std::uint32_t* matches = nullptr;  ///< [segments, width]: number of ties or of zeros
  float* products = nullptr;         ///< [segments, width]: product of the nonzero elements
  void* span_workspace = nullptr;
  std::size_t bytes;

  GradientMemory(void* memory, SegmentGradientArgs const& args) {
    WorkspaceLayout workspace(memory);
    auto const& layout = args.layout;
    auto const elements = layout.segments * args.width;
    bool const is_unsorted = layout.form == SegmentForm::unsorted_ids;
    bool const is_product = args.reduction == SegmentReduction::prod;
    if (!is_unsorted || is_product) {
      spans.emplace(workspace, layout);
    }
    if (is_unsorted && divides(args.reduction)) {
      rows = workspace.take<std::uint32_t>(layout.segments);
    }
    if (!is_sum_reduction(args.reduction)) {
      matches = workspace.take<std::uint32_t>(elements);
    }
    if (is_product) {
      products = workspace.take<float>(elements);
      span_workspace =
          workspace.take_bytes(span_workspace_bytes(layout.capacity, layout.segments, args.width));
    }
    bytes = workspace.bytes();
  }
};

std::int64_t places_of_block(std::int64_t capacity, RowLanes const& shape) {
  return gradient_places(capacity, shape.lanes()) * (kGradientThreads / shape.lanes());
}

template <int Count, class Places, class Rule>
void launch_gradient(CudaStream stream,
                     SegmentGradientArgs const& args,
                     Places const& places,
                     Rule const& rule) {
  RowLanes const shape(args.width, Count);
  auto const capacity = args.layout.capacity;
  segment_gradient_kernel<Places, Rule, Count>
      <<<grid_for(capacity, places_of_block(capacity, shape)), kGradientThreads, 0, stream>>>(
          places, rule, shape, capacity, args.value_gradients);
  check_launch("segment_reduce_gradient");
}

template <int Count, class Places, class Matcher>
void launch_count(CudaStream stream,
                  SegmentGradientArgs const& args,
                  Places const& places,
                  Matcher const& matcher,
                  std::uint32_t* matches) {
  RowLanes const shape(args.width, Count);
  auto const capacity = args.layout.capacity;
  auto const bytes = static_cast<std::size_t>(args.layout.segments * args.width) * sizeof(*matches);
  check_cuda(cudaMemsetAsync(matches, 0, bytes, stream), "cudaMemsetAsync");
  dim3 const grid(grid_for(capacity, places_of_block(capacity, shape)),
                  static_cast<unsigned>(ceil_div<std::int64_t>(args.width, shape.lanes() * Count)));
  count_matches_kernel<Places, Matcher, Count><<<grid, kGradientThreads, 0, stream>>>(
      places, matcher, args.values, shape, capacity, matches);
  check_launch("segment_reduce_gradient, matches");
}

template <int Count, class Places>
void launch(CudaStream stream,
            SegmentGradientArgs const& args,
            Places const& places,
            GradientMemory const& memory) {
  if (is_sum_reduction(args.reduction)) {
    launch_gradient<Count>(
        stream, args, places, ScaledRule<Count>{args.output_gradient, args.reduction});
  } else if (is_extremum_reduction(args.reduction)) {
    launch_count<Count>(stream, args, places, EqualsExtremum{args.output}, memory.matches);
    launch_gradient<Count>(
        stream,
        args,
        places,
        ExtremumRule<Count>{args.output_gradient, args.values, args.output, memory.matches});
  } else {
    launch_count<Count>(stream, args, places, IsZero{}, memory.matches);
    launch_gradient<Count>(
        stream,
        args,
        places,
        ProductRule<Count>{args.output_gradient, args.values, memory.products, memory.matches});
  }
}

bool takes_vectors(SegmentGradientArgs const& args) {
  auto const fits = [&](float const* rows) { return allows_vectors(rows, args.width, 4); };
  return fits(args.output_gradient) && allows_stores(args.value_gradients, args.width, 4) &&
         (is_sum_reduction(args.reduction) || fits(args.values)) &&
         (!is_extremum_reduction(args.reduction) || fits(args.output));
}

}  // namespace

std::size_t segment_reduce_gradient_workspace_bytes(CudaStream, SegmentGradientArgs const& args) {
  return GradientMemory(nullptr, args).bytes;
}

void segment_reduce_gradient(CudaStream stream, SegmentGradientArgs const& args) {
  auto const& layout = args.layout;
  if (layout.capacity == 0 || args.width == 0) {
    return;
  }
  if (layout.segments == 0) {
    auto const bytes = static_cast<std::size_t>(layout.capacity * args.width) * sizeof(float);
    check_cuda(cudaMemsetAsync(args.value_gradients, 0, bytes, stream), "cudaMemsetAsync");
    return;
  }
  GradientMemory const memory(args.workspace, args);
  std::optional<Spans> spans;
  if (memory.spans) {
    spans = memory.spans->make(stream);
  }
  if (args.reduction == SegmentReduction::prod) {
    multiply_nonzeros_of_spans(stream,
                               {.values = args.values,
                                .positions = spans->positions,
                                .offsets = spans->offsets,
                                .are_given = spans->are_given,
                                .segments = layout.segments,
                                .capacity = layout.capacity,
                                .width = args.width,
                                .reduction = args.reduction,
                                .empty_value = 1.0F,
                                .output = memory.products,
                                .workspace = memory.span_workspace});
  }
  if (memory.rows != nullptr) {
    count_places(stream, layout, memory.rows);
  }
  auto const with_places = [&](auto const& places) {
    if (takes_vectors(args)) {
      launch<4>(stream, args, places, memory);
    } else {
      launch<1>(stream, args, places, memory);
    }
  };
  if (layout.form == SegmentForm::unsorted_ids) {
    with_places(PlacesOfIds{layout, memory.rows});
  } else {
    SegmentBounds const bounds{spans->offsets, layout.segments, layout.capacity, spans->are_given};
    if (args.width <= kNarrowWidth) {
      with_places(PlacesOfNarrowSpans{bounds});
    } else {
      with_places(PlacesOfSpans{bounds});
    }
  }
}

}  // namespace msstream::ops::kernels
