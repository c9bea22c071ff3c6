// SPDX-License-Identifier: Apache-2.0
#include "segment_host.hpp"

#include "column_count_host.hpp"
#include "id_report_host.hpp"
#include "long_sum.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace msstream::ops::kernels {
namespace {

/// The sums of segments of more than kTermsOfPart rows, in float64; there are few of them beside
/// the rows.
class LongSegments {
 public:
  LongSegments(RowCounts const& rows, std::int64_t segments, std::int64_t width) {
    std::int64_t elements = 0;
    for (std::int64_t s = 0; s < segments; ++s) {
      if (rows.of(s) > kTermsOfPart) {
        first_.resize(static_cast<std::size_t>(segments), -1);
        first_[static_cast<std::size_t>(s)] = elements;
        elements += width;
      }
    }
    sums_.resize(static_cast<std::size_t>(elements));
  }

  /// [width]; null for a short segment.
  [[nodiscard]] double* of(std::int64_t segment) {
    auto const first = first_.empty() ? -1 : first_[static_cast<std::size_t>(segment)];
    return first >= 0 ? sums_.data() + first : nullptr;
  }

 private:
  std::vector<std::int64_t> first_;  ///< element of each segment's sums, or -1
  std::vector<double> sums_;
};

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
  constexpr bool kAddsUp = adds_up<Combiner>;
  LongSegments long_ones(rows, kAddsUp ? layout.segments : 0, width);
  auto const take = [&](std::int64_t place, std::int64_t segment) {
    if (segment < 0) {
      return;
    }
    float const* const row = args.values + place * width;
    float* const total = args.output + segment * width;
    if constexpr (kAddsUp) {
      if (double* const sums = long_ones.of(segment); sums != nullptr) {
        for (std::int64_t c = 0; c < width; ++c) {
          sums[c] += static_cast<double>(row[c]);
        }
        return;
      }
    }
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
      if (double const* const sums = long_ones.of(s); sums != nullptr) {
        std::transform(
            sums, sums + width, total, [](double sum) { return static_cast<float>(sum); });
      }
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

void segment_reduce(HostStream stream, SegmentArgs const& args) {
  stream.run([args] {
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
