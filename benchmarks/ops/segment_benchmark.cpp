// SPDX-License-Identifier: Apache-2.0
#include "lab.hpp"

#include <fmt/core.h>

#include <cstdint>
#include <utility>

/// Benchmarks of segment reductions, sorted and unsorted, and of distinct ids, on a cold cache,
/// compared with a copy. Bytes count the rows, an id of 8 bytes for each row, and the output.
namespace benchmarks {
namespace {

using Sizes = axes::Kernels;
using ms::ops::SegmentIds;
using ms::ops::SegmentReduction;

/// Returns the bytes that a segment reduction of rows reads and writes.
template <ms::Runtime R>
double segment_bytes(Lab<R>& lab, std::int64_t width) {
  auto const row_bytes = static_cast<double>(width) * sizeof(float);
  return static_cast<double>(segment_rows(lab)) * (row_bytes + sizeof(std::int64_t)) +
         static_cast<double>(segments(lab)) * row_bytes;
}

template <ms::Runtime R>
void unique(benchmark::State& state,
            DeviceBench<R>& bench,
            std::int64_t full_count,
            Draw draw,
            ms::ops::UniqueOptions<R> const& options) {
  auto const count = bench.rows(full_count);
  auto const ids =
      put_ids<std::int64_t>(bench.device(), drawn(count, Sizes::kTableRows, draw), {count});
  bench.measure_cold(state, {.bytes = 3.0 * bytes_of(ids)}, [&] {
    benchmark::DoNotOptimize(ms::ops::unique(ids, options));
  });
}

template <ms::Runtime R>
void add_all(std::int64_t divisor) {
  auto const add_one = adder<R>("segment", divisor);
  for (auto const width : Sizes::kSegmentWidths) {
    for (auto const draw : kDraws) {
      for (auto const& [reduction, name] : {std::pair{SegmentReduction::sum, "sum"},
                                            std::pair{SegmentReduction::mean, "mean"},
                                            std::pair{SegmentReduction::max, "max"},
                                            std::pair{SegmentReduction::min, "min"}}) {
        add_one(fmt::format("sorted/{}/{}/width:{}", name, lengths_of(draw), width),
                [=, reduction = reduction](auto& state, auto& lab) {
                  auto const values = lab.matrix(segment_rows(lab), width);
                  auto const offsets = segment_starts(lab, draw);
                  lab.bench().measure_cold(state, {.bytes = segment_bytes(lab, width)}, [&] {
                    benchmark::DoNotOptimize(ms::ops::segment_reduce(values, offsets, reduction));
                  });
                });
      }
      add_one(fmt::format("sorted_ids/sum/{}/width:{}", lengths_of(draw), width),
              [=](auto& state, auto& lab) {
                auto const values = lab.matrix(segment_rows(lab), width);
                auto const ids = sorted_segment_ids(lab, draw);
                lab.bench().measure_cold(state, {.bytes = segment_bytes(lab, width)}, [&] {
                  benchmark::DoNotOptimize(ms::ops::segment_reduce(
                      values, {ids, segments(lab), SegmentIds::sorted}, SegmentReduction::sum));
                });
              });
      for (bool const deterministic : {true, false}) {
        add_one(fmt::format("unsorted_sum/{}{}/width:{}",
                            deterministic ? "deterministic/" : "fast/",
                            name_of(draw),
                            width),
                [=](auto& state, auto& lab) {
                  auto const values = lab.matrix(segment_rows(lab), width);
                  auto const ids = segment_ids(lab, draw);
                  lab.bench().measure_cold(state, {.bytes = segment_bytes(lab, width)}, [&] {
                    benchmark::DoNotOptimize(
                        ms::ops::segment_reduce(values,
                                                {ids, segments(lab), SegmentIds::unsorted},
                                                SegmentReduction::sum,
                                                {.deterministic = deterministic}));
                  });
                });
      }
    }
  }
  for (auto const count : Sizes::kUniqueIds) {
    for (auto const draw : kDraws) {
      for (bool const bounded : {true, false}) {
        ms::ops::UniqueOptions<R> options;
        if (bounded) {
          options.below = Sizes::kTableRows;
        }
        add_one(
            fmt::format("unique/{}{}/ids:{}", bounded ? "bounded/" : "any/", name_of(draw), count),
            [=](auto& state, auto& lab) { unique(state, lab.bench(), count, draw, options); });
      }
    }
  }
}

}  // namespace

void add_host_benchmarks() {
  add_all<ms::Host>(axes::kHostDivisor);
}

void add_cuda_benchmarks() {
#if MSSTREAM_CUDA
  add_all<ms::Cuda>(1);
#endif
}

}  // namespace benchmarks
