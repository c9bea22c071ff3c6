// SPDX-License-Identifier: Apache-2.0
#include "common/column_count_host.hpp"
#include "common/existing_places.hpp"
#include "common/long_sum.hpp"
#include "ids/bag_report_host.hpp"
#include "segment/layout_host.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace msstream::ops::kernels {
namespace {

/// The float64 sums of segments with more than kTermsOfPart rows, whose positions may be anywhere.
/// Few segments have that many rows, compared with the number of rows.
class LongSegments {
 public:
  LongSegments(RowCounts const& rows, std::int64_t segments, float* output, std::int64_t width)
      : output_(output), width_(width), first_(static_cast<std::size_t>(segments), -1) {
    std::int64_t elements = 0;
    for (std::int64_t s = 0; s < segments; ++s) {
      if (rows.of(s) > kTermsOfPart) {
        first_[static_cast<std::size_t>(s)] = elements;
        elements += width;
      }
    }
    sums_.resize(static_cast<std::size_t>(elements));
  }
  ~LongSegments() {
    for (std::size_t s = 0; s < first_.size(); ++s) {
      for (std::int64_t c = 0; first_[s] >= 0 && c < width_; ++c) {
        output_[static_cast<std::int64_t>(s) * width_ + c] =
            static_cast<float>(sums_[static_cast<std::size_t>(first_[s] + c)]);
      }
    }
  }
  LongSegments(LongSegments const&) = delete;
  LongSegments& operator=(LongSegments const&) = delete;

  /// Returns the float64 sums [width] of a segment; null for a segment with at most kTermsOfPart
  /// rows.
  [[nodiscard]] double* of(std::int64_t segment) {
    auto const first = first_[static_cast<std::size_t>(segment)];
    return first >= 0 ? sums_.data() + first : nullptr;
  }

 private:
  float* output_;
  std::int64_t width_;
  std::vector<std::int64_t> first_;  ///< index of each segment's first float64 sum, or -1
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

/// Adds runs of rows at neighbouring positions to the output row of their segment.
template <class Columns>
class RunsOfRows {
 public:
  RunsOfRows(SegmentArgs const& args, Columns columns)
      : args_(args), columns_(columns), sums_(static_cast<std::size_t>(columns.count())) {}

  void add(std::int64_t segment, std::int64_t begin, std::int64_t end) {
    auto const width = columns_.count();
    float* const total = args_.output + segment * width;
    if (width == 1) {
      float const* const run = args_.values + begin;
      *total += sum_of_terms(end - begin, [=](std::int64_t i) { return run[i]; });
      return;
    }
    add_rows(columns_, sums_.data(), begin, end, [&](std::int64_t place, auto const& add_row) {
      add_row(args_.values + place * width, 1.0F);
    });
    for (std::int64_t c = 0; c < width; ++c) {
      total[c] += sums_[static_cast<std::size_t>(c)];
    }
  }

 private:
  SegmentArgs const& args_;
  Columns columns_;
  std::vector<float> sums_;
};

/// Adds the rows of the positions [begin, end) to the output rows of their segments. The positions
/// of a segment must be neighbours.
template <class Columns>
void add_runs(SegmentArgs const& args, Columns columns, std::int64_t begin, std::int64_t end) {
  RunsOfRows<Columns> runs(args, columns);
  std::int64_t first = begin;
  std::int64_t next = begin;  // end of the current run; segments with invalid offsets have no run
  std::int64_t current = -1;
  for_each_place(args.layout, begin, end, [&](std::int64_t place, std::int64_t segment) {
    if (segment != current || place != next) {
      if (current >= 0) {
        runs.add(current, first, next);
      }
      first = place;
      current = segment;
    }
    next = place + 1;
  });
  if (current >= 0) {
    runs.add(current, first, next);
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
  auto const combine_places = [&](std::int64_t begin, std::int64_t end, auto const& long_sums_of) {
    for_each_place(layout, begin, end, [&](std::int64_t place, std::int64_t segment) {
      if (segment < 0) {
        return;
      }
      float const* const row = args.values + place * width;
      if (double* const sums = long_sums_of(segment); sums != nullptr) {
        for (std::int64_t c = 0; c < width; ++c) {
          sums[c] += static_cast<double>(row[c]);
        }
        return;
      }
      float* const total = args.output + segment * width;
      for (std::int64_t c = 0; c < width; ++c) {
        total[c] = Combiner::combine(total[c], row[c]);
      }
    });
  };
  parallel_segments(layout, grain, [&](std::int64_t begin, std::int64_t end) {
    if constexpr (!adds_up<Combiner>) {
      combine_places(begin, end, [](std::int64_t) -> double* { return nullptr; });
    } else if (layout.form == SegmentForm::unsorted_ids) {
      LongSegments long_ones(rows, layout.segments, args.output, width);
      combine_places(begin, end, [&](std::int64_t segment) { return long_ones.of(segment); });
    } else {
      add_runs(args, columns, begin, end);
    }
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
