// SPDX-License-Identifier: Apache-2.0
#include "segment_host.hpp"

#include "column_count_host.hpp"
#include "id_report_host.hpp"

#include <algorithm>

namespace msstream::ops::kernels {
namespace {

void tell_if_bad(SegmentLayout const& layout, std::int64_t segment) {
  auto const& report = layout.report;
  bool const is_reported = report.count != nullptr || report.trap != nullptr;
  if (is_reported && offsets_of(layout).is_bad(segment)) {
    count_out_of_range(report, 1);
    spring_trap(report, offsets_of(layout), segment);
  }
}

template <class Combiner, class Columns>
void reduce_segments(SegmentArgs const& args, Combiner, Columns columns) {
  auto const width = columns.count();
  auto const& layout = args.layout;
  RowCounts const rows(layout, static_cast<std::int64_t*>(args.workspace));
  auto const grain = grain_of(width * static_cast<std::int64_t>(sizeof(float)));
  parallel_ranges(layout.segments, grain, [&](std::int64_t begin, std::int64_t end) {
    std::fill(args.output + begin * width, args.output + end * width, Combiner::nothing());
  });
  auto const take = [&](std::int64_t place, std::int64_t segment) {
    if (segment < 0) {
      return;
    }
    float const* const row = args.values + place * width;
    float* const total = args.output + segment * width;
    for (std::int64_t c = 0; c < width; ++c) {
      total[c] = Combiner::combine(total[c], row[c]);
    }
  };
  parallel_segments(layout, grain, [&](std::int64_t begin, std::int64_t end) {
    for_each_place(layout, begin, end, take);
  });
  parallel_ranges(layout.segments, grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto s = begin; s < end; ++s) {
      tell_if_bad(layout, s);
      float* const total = args.output + s * width;
      if (rows.of(s) == 0) {
        std::fill_n(total, width, args.empty_value);
      } else if (divides(args.reduction)) {
        auto const divisor = segment_divisor(args.reduction, rows.of(s));
        std::transform(total, total + width, total, [=](float sum) { return sum / divisor; });
      }
    }
  });
}

template <class Combiner>
void reduce(SegmentArgs const& args, Combiner combiner) {
  with_columns(args.width, [&](auto columns) { reduce_segments(args, combiner, columns); });
}

}  // namespace

std::size_t segment_reduce_workspace_bytes(HostStream, SegmentArgs const& args) {
  return static_cast<std::size_t>(RowCounts::elements(args.layout)) * sizeof(std::int64_t);
}

void segment_reduce(HostStream stream, SegmentArgs const& all_args) {
  stream.run([all_args] {
    auto const args = looked_at(all_args);
    if (is_sum_reduction(args.reduction)) {
      reduce(args, Total{});
    } else if (args.reduction == SegmentReduction::max) {
      reduce(args, Largest{});
    } else if (args.reduction == SegmentReduction::min) {
      reduce(args, Smallest{});
    } else {
      reduce(args, Product{});
    }
  });
}

void segment_offsets(HostStream stream, SegmentOffsetsArgs const& args) {
  stream.run([args] {
    auto const existing = existing_places(args.layout);
    std::int64_t below = 0;
    for (std::int64_t s = 0; s <= args.layout.segments; ++s) {
      while (below < existing && segment_id(args.layout, below) < s) {
        ++below;
      }
      args.offsets[s] = below;
    }
  });
}

}  // namespace msstream::ops::kernels
