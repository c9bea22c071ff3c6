// SPDX-License-Identifier: Apache-2.0
#include "common/long_sum_host.hpp"
#include "elementwise/reduce_math.hpp"
#include "elementwise/softmax_math.hpp"
#include "ids/bag_offsets.hpp"
#include "ids/bag_report_host.hpp"
#include "jagged/jagged_softmax.hpp"

#include <algorithm>
#include <cmath>

namespace msstream::ops::kernels {
namespace {

constexpr std::int64_t kColumns = 16;  ///< columns processed together, so that loops vectorise

/// Calls work(rows of the segment, first column, number of columns) for all columns of each
/// segment, at most kColumns at a time. For a segment with invalid offsets, calls tell_bad(segment)
/// instead. Sets the rows that belong to no segment to zero.
template <class Args, class TellBad, class Work>
void for_each_segment(Args const& args, float* output, TellBad const& tell_bad, Work const& work) {
  auto const clear = [&](std::int64_t begin, std::int64_t end) {
    std::fill_n(
        output + begin * args.width, std::max<std::int64_t>(end - begin, 0) * args.width, 0.0F);
  };
  auto const offsets =
      BagOffsets<std::int64_t>{args.offsets, args.segments, args.capacity}.looked_at();
  std::int64_t cleared = 0;
  for (std::int64_t s = 0; s < args.segments; ++s) {
    if (offsets.is_bad(s)) {
      tell_bad(s);
      continue;
    }
    auto const rows = offsets.places_of(s);
    clear(cleared, rows.begin);
    cleared = rows.end;
    for (std::int64_t first = 0; first < args.width; first += kColumns) {
      work(rows, first, std::min(kColumns, args.width - first));
    }
  }
  clear(cleared, args.capacity);
}

}  // namespace

std::size_t jagged_softmax_workspace_bytes(HostStream, std::int64_t, std::int64_t) {
  return 0;
}

void jagged_softmax(HostStream stream, JaggedSoftmaxArgs const& args) {
  stream.run([args] {
    auto const tell_bad = [&](std::int64_t segment) {
      count_out_of_range(args.report, 1);
      spring_trap(args.report,
                  BagOffsets<std::int64_t>{args.offsets, args.segments, args.capacity},
                  segment);
    };
    for_each_segment(args,
                     args.output,
                     tell_bad,
                     [&](PlaceRange rows, std::int64_t first, std::int64_t columns) {
                       float largest[kColumns];
                       float sums[kColumns];
                       RowTotals totals(sums, columns);
                       std::fill_n(largest, kColumns, Largest::nothing());
                       for (auto row = rows.begin; row < rows.end; ++row) {
                         auto const* const values = args.values + row * args.width + first;
                         for (std::int64_t c = 0; c < columns; ++c) {
                           largest[c] = Largest::combine(largest[c], values[c]);
                         }
                       }
                       for (auto row = rows.begin; row < rows.end; ++row) {
                         auto const* const values = args.values + row * args.width + first;
                         auto* const output = args.output + row * args.width + first;
                         totals.begin_row();
                         for (std::int64_t c = 0; c < columns; ++c) {
                           output[c] = std::exp(values[c] - largest[c]);
                           sums[c] += output[c];
                         }
                       }
                       totals.finish();
                       for (auto row = rows.begin; row < rows.end; ++row) {
                         auto* const output = args.output + row * args.width + first;
                         for (std::int64_t c = 0; c < columns; ++c) {
                           output[c] /= sums[c];
                         }
                       }
                     });
  });
}

std::size_t jagged_softmax_gradient_workspace_bytes(HostStream, std::int64_t, std::int64_t) {
  return 0;
}

void jagged_softmax_gradient(HostStream stream, JaggedSoftmaxGradientArgs const& args) {
  stream.run([args] {
    for_each_segment(
        args,
        args.value_gradients,
        [](std::int64_t) {},
        [&](PlaceRange rows, std::int64_t first, std::int64_t columns) {
          float totals[kColumns];
          RowTotals sums(totals, columns);
          for (auto row = rows.begin; row < rows.end; ++row) {
            auto const place = row * args.width + first;
            sums.begin_row();
            for (std::int64_t c = 0; c < columns; ++c) {
              totals[c] += weighted(args.output[place + c], args.output_gradient[place + c]);
            }
          }
          sums.finish();
          for (auto row = rows.begin; row < rows.end; ++row) {
            auto const place = row * args.width + first;
            for (std::int64_t c = 0; c < columns; ++c) {
              args.value_gradients[place + c] =
                  gradient_of(args.output[place + c], args.output_gradient[place + c], totals[c]);
            }
          }
        });
  });
}

}  // namespace msstream::ops::kernels
