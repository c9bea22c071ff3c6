// SPDX-License-Identifier: Apache-2.0
#include "column_count_host.hpp"

#include <msstream/ops/kernels/segment.hpp>

#include <algorithm>

namespace msstream::ops::kernels {
namespace {

template <class Columns>
void reduce_segments(SegmentArgs const& args, Columns columns) {
  for (std::int64_t s = 0; s < args.segments; ++s) {
    auto const begin = args.offsets[s];
    auto const end = args.offsets[s + 1];
    add_rows(columns, args.output + s * columns.count(), [&](auto add_row) {
      for (auto i = begin; i < end; ++i) {
        add_row(args.values + i * columns.count(), 1.0F);
      }
      bool const divides = args.pooling == Pooling::mean && end > begin;
      return divides ? static_cast<float>(end - begin) : 1.0F;
    });
  }
}

}  // namespace

std::size_t segment_reduce_workspace_bytes(HostStream, std::int64_t, std::int64_t, std::int64_t) {
  return 0;
}

void segment_reduce(HostStream stream, SegmentArgs const& args) {
  stream.run(
      [args] { with_columns(args.width, [&](auto columns) { reduce_segments(args, columns); }); });
}

void segment_reduce_gradient(HostStream stream, SegmentGradientArgs const& args) {
  stream.run([args] {
    auto const width = args.width;
    auto const row = [&](std::int64_t i) { return args.value_gradients + i * width; };
    std::fill(row(0), row(args.offsets[0]), 0.0F);
    for (std::int64_t s = 0; s < args.segments; ++s) {
      auto const begin = args.offsets[s];
      auto const end = args.offsets[s + 1];
      auto const* const gradient = args.output_gradient + s * width;
      float const scale =
          args.pooling == Pooling::mean ? 1.0F / static_cast<float>(end - begin) : 1.0F;
      for (auto i = begin; i < end; ++i) {
        std::transform(gradient, gradient + width, row(i), [=](float g) { return scale * g; });
      }
    }
    std::fill(row(args.offsets[args.segments]), row(args.capacity), 0.0F);
  });
}

void segment_offsets(HostStream stream, SegmentOffsetsArgs const& args) {
  stream.run([args] {
    auto const count = args.count != nullptr ? *args.count : args.capacity;
    std::int64_t below = 0;
    for (std::int64_t s = 0; s <= args.segments; ++s) {
      while (below < count && args.segment_ids[below] < s) {
        ++below;
      }
      args.offsets[s] = below;
    }
  });
}

}  // namespace msstream::ops::kernels
