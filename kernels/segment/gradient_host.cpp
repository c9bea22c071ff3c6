// SPDX-License-Identifier: Apache-2.0
#include "common/workspace_layout.hpp"
#include "segment/layout_host.hpp"

#include <algorithm>
#include <optional>

namespace msstream::ops::kernels {
namespace {

/// The workspace of the gradient of a segment reduction on the host.
struct GradientMemory {
  std::int64_t* rows = nullptr;      ///< memory of RowCounts
  std::uint32_t* matches = nullptr;  ///< [segments, width]: number of ties or of zeros
  float* products = nullptr;         ///< [segments, width]: product of the nonzero elements
  std::size_t bytes;

  GradientMemory(void* memory, SegmentGradientArgs const& args) {
    WorkspaceLayout workspace(memory);
    auto const elements = args.layout.segments * args.width;
    if (divides(args.reduction)) {
      rows = workspace.take<std::int64_t>(RowCounts::elements(args.layout));
    }
    if (!is_sum_reduction(args.reduction)) {
      matches = workspace.take<std::uint32_t>(elements);
      std::fill_n(matches, matches != nullptr ? elements : 0, 0U);
    }
    if (args.reduction == SegmentReduction::prod) {
      products = workspace.take<float>(elements);
      std::fill_n(products, products != nullptr ? elements : 0, 1.0F);
    }
    bytes = workspace.bytes();
  }
};

/// Returns the number of positions that are worth waking a helper thread for.
[[nodiscard]] std::int64_t grain_of_places(SegmentGradientArgs const& args) {
  return grain_of(2 * args.width * static_cast<std::int64_t>(sizeof(float)));
}

/// Calls add(index of the first element of the position's row, index of the first element of its
/// segment's row) for the positions that are in a segment. One thread visits all positions of a
/// segment, in ascending order, so that `add` may change the segment's row.
template <class Add>
void for_each_row(SegmentGradientArgs const& args, Add const& add) {
  auto const visit = [&](std::int64_t place, std::int64_t segment) {
    if (segment >= 0) {
      add(place * args.width, segment * args.width);
    }
  };
  parallel_segments(args.layout, grain_of_places(args), [&](std::int64_t begin, std::int64_t end) {
    for_each_place(args.layout, begin, end, visit);
  });
}

/// Calls write(index of the first element of the position's row, segment) for the positions that
/// are in a segment, in any order, and sets the gradient rows of the other positions to 0.
template <class Write>
void write_gradients(SegmentGradientArgs const& args, Write const& write) {
  auto const visit = [&](std::int64_t place, std::int64_t segment) {
    if (segment >= 0) {
      write(place * args.width, segment);
    } else {
      std::fill_n(args.value_gradients + place * args.width, args.width, 0.0F);
    }
  };
  parallel_ranges(
      args.layout.capacity, grain_of_places(args), [&](std::int64_t begin, std::int64_t end) {
        for_each_place(args.layout, begin, end, visit);
      });
}

void scale_gradients(SegmentGradientArgs const& args, std::int64_t* rows) {
  auto const width = args.width;
  auto const counts =
      divides(args.reduction) ? std::optional(RowCounts(args.layout, rows)) : std::nullopt;
  write_gradients(args, [&](std::int64_t at, std::int64_t segment) {
    float const scale = counts ? 1.0F / segment_divisor(args.reduction, counts->of(segment)) : 1.0F;
    float const* const gradient = args.output_gradient + segment * width;
    std::transform(
        gradient, gradient + width, args.value_gradients + at, [=](float g) { return scale * g; });
  });
}

void share_gradients(SegmentGradientArgs const& args, std::uint32_t* ties) {
  auto const is_tie = [&](std::int64_t at, std::int64_t of) {
    return is_extremum(args.values[at], args.output[of]);
  };
  for_each_row(args, [&](std::int64_t at, std::int64_t of) {
    for (std::int64_t c = 0; c < args.width; ++c) {
      ties[of + c] += is_tie(at + c, of + c) ? 1U : 0U;
    }
  });
  write_gradients(args, [&](std::int64_t at, std::int64_t segment) {
    auto const of = segment * args.width;
    for (std::int64_t c = 0; c < args.width; ++c) {
      args.value_gradients[at + c] =
          is_tie(at + c, of + c) ? args.output_gradient[of + c] / static_cast<float>(ties[of + c])
                                 : 0.0F;
    }
  });
}

void multiply_gradients(SegmentGradientArgs const& args, GradientMemory const& memory) {
  for_each_row(args, [&](std::int64_t at, std::int64_t of) {
    for (std::int64_t c = 0; c < args.width; ++c) {
      auto const x = args.values[at + c];
      memory.matches[of + c] += x == 0.0F ? 1U : 0U;
      memory.products[of + c] *= ProductOfNonzeros::element(x);
    }
  });
  write_gradients(args, [&](std::int64_t at, std::int64_t segment) {
    auto const of = segment * args.width;
    for (std::int64_t c = 0; c < args.width; ++c) {
      args.value_gradients[at + c] = product_gradient(args.output_gradient[of + c],
                                                      args.values[at + c],
                                                      memory.products[of + c],
                                                      memory.matches[of + c]);
    }
  });
}

}  // namespace

std::size_t segment_reduce_gradient_workspace_bytes(HostStream, SegmentGradientArgs const& args) {
  return GradientMemory(nullptr, args).bytes;
}

void segment_reduce_gradient(HostStream stream, SegmentGradientArgs const& all_args) {
  stream.run([all_args] {
    auto const args = looked_at(all_args);
    GradientMemory const memory(args.workspace, args);
    if (is_sum_reduction(args.reduction)) {
      scale_gradients(args, memory.rows);
    } else if (is_extremum_reduction(args.reduction)) {
      share_gradients(args, memory.matches);
    } else {
      multiply_gradients(args, memory);
    }
  });
}

}  // namespace msstream::ops::kernels
