// SPDX-License-Identifier: Apache-2.0
#include "lab.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

/// Benchmarks of jagged bags and their dense form, lengths and offsets, softmax within segments,
/// and gradients of segment reductions, on a cold cache, compared with a copy. Bytes count the
/// arguments that must be read and the results, each once.
namespace benchmarks {
namespace {

using Sizes = axes::Rows;
using ms::ops::SegmentReduction;

/// The offsets of consecutive bags, the number of rows in all of them, and how many of those rows
/// fit a dense tensor.
template <ms::Runtime R>
struct JaggedBags {
  ms::Tensor<std::int64_t, R> offsets;
  std::int64_t capacity;
  std::int64_t dense_rows;
};

/// Returns bags of random lengths, none of more than kLongest rows.
template <ms::Runtime R>
JaggedBags<R> jagged_bags(Lab<R>& lab, Draw draw) {
  return lab.kept(fmt::format("jagged, {}", name_of(draw)), [&]() -> JaggedBags<R> {
    auto const bags = lab.rows(axes::Kernels::kBags);
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(bags));
    for (auto const bag : drawn(bags * Sizes::kMeanLength, bags, draw)) {
      auto& length = lengths[static_cast<std::size_t>(bag)];
      length = std::min(length + 1, Sizes::kLongest);
    }
    std::vector<std::int64_t> offsets(lengths.size() + 1);
    std::partial_sum(lengths.begin(), lengths.end(), offsets.begin() + 1);
    auto const dense_rows =
        std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}, [](auto sum, auto length) {
          return sum + std::min(length, Sizes::kDenseLength);
        });
    return {put_ids<std::int64_t>(lab.device(), offsets, {bags + 1}), offsets.back(), dense_rows};
  });
}

/// Measures the conversion of jagged rows to a dense tensor or back. Counts as bytes the rows that
/// both forms contain, which are read, and the whole output.
template <ms::Runtime R>
void dense(benchmark::State& state, Lab<R>& lab, Draw draw, bool to_dense) {
  auto const bags = jagged_bags(lab, draw);
  auto const values = random_rows<float>(lab.device(), bags.capacity, Sizes::kWidth);
  auto const as_dense = ms::ops::jagged_to_dense(values, bags.offsets, Sizes::kDenseLength);
  double const read =
      static_cast<double>(bags.dense_rows) * Sizes::kWidth * sizeof(float) + bytes_of(bags.offsets);
  double const written = to_dense ? bytes_of(as_dense) : bytes_of(values);
  lab.bench().measure_cold(state, {.bytes = read + written}, [&] {
    if (to_dense) {
      benchmark::DoNotOptimize(ms::ops::jagged_to_dense(values, bags.offsets, Sizes::kDenseLength));
    } else {
      benchmark::DoNotOptimize(ms::ops::dense_to_jagged(as_dense, bags.offsets, bags.capacity));
    }
  });
}

template <ms::Runtime R>
void lengths(benchmark::State& state, Lab<R>& lab, bool to_offsets) {
  auto const samples = lab.rows(Sizes::kNumbers);
  auto const lengths = put_ids<std::int64_t>(
      lab.device(), drawn(samples, 2 * Sizes::kMeanLength, Draw::uniform), {samples});
  auto const offsets = ms::ops::lengths_to_offsets(lengths);
  lab.bench().measure_cold(state, {.bytes = bytes_of(lengths, offsets)}, [&] {
    if (to_offsets) {
      benchmark::DoNotOptimize(ms::ops::lengths_to_offsets(lengths));
    } else {
      benchmark::DoNotOptimize(ms::ops::offsets_to_lengths(offsets));
    }
  });
}

template <ms::Runtime R>
void coo(benchmark::State& state, Lab<R>& lab, Draw draw) {
  auto const bag_of_id = sorted_segment_ids(lab, draw);
  auto const ids = segment_ids(lab, draw);
  lab.bench().measure_cold(state, {}, [&] {  // no byte count: a search reads few of the ids
    benchmark::DoNotOptimize(ms::ops::coo_bags(ids, bag_of_id, segments(lab)));
  });
}

template <ms::Runtime R>
void softmax(benchmark::State& state, Lab<R>& lab, Draw draw, bool gradient) {
  auto const values = lab.matrix(segment_rows(lab), 1);
  auto const offsets = segment_starts(lab, draw);
  auto const output = ms::ops::jagged_softmax(values, offsets);
  double const bytes = bytes_of(values, output, offsets) + (gradient ? bytes_of(values) : 0);
  lab.bench().measure_cold(state, {.bytes = bytes}, [&] {
    if (gradient) {
      benchmark::DoNotOptimize(ms::ops::jagged_softmax_gradient(output, values, offsets));
    } else {
      benchmark::DoNotOptimize(ms::ops::jagged_softmax(values, offsets));
    }
  });
}

/// Measures the gradient of a segment reduction. The result is as large as the values. The gradient
/// of a maximum also reads the values and the maxima.
template <ms::Runtime R>
void segment_gradient(benchmark::State& state, Lab<R>& lab, Draw draw, SegmentReduction reduction) {
  auto const values = lab.matrix(segment_rows(lab), Sizes::kWidth);
  auto const offsets = segment_starts(lab, draw);
  auto const reduced = ms::ops::segment_reduce(values, offsets, reduction);
  auto const gradient = random_rows<float>(lab.device(), segments(lab), Sizes::kWidth);
  bool const of_values = reduction == SegmentReduction::max;
  ms::ops::SegmentForward<R> const forward =
      of_values ? ms::ops::SegmentForward<R>(values, reduced) : segment_rows(lab);
  double const bytes =
      bytes_of(gradient, offsets, values) + (of_values ? bytes_of(values, reduced) : 0);
  lab.bench().measure_cold(state, {.bytes = bytes}, [&] {
    benchmark::DoNotOptimize(
        ms::ops::segment_reduce_gradient(gradient, offsets, forward, reduction));
  });
}

template <ms::Runtime R>
void add_all(std::int64_t divisor) {
  auto const add_one = adder<R>("jagged", divisor);
  auto const add_draws = by_draw(add_one, lengths_of);
  add_draws("to_dense", [](auto& state, auto& lab, Draw draw) { dense(state, lab, draw, true); });
  add_draws("from_dense",
            [](auto& state, auto& lab, Draw draw) { dense(state, lab, draw, false); });
  add_draws("coo_bags", coo<R>);
  add_draws("softmax", [](auto& state, auto& lab, Draw draw) { softmax(state, lab, draw, false); });
  add_draws("softmax_gradient",
            [](auto& state, auto& lab, Draw draw) { softmax(state, lab, draw, true); });
  for (auto const& [reduction, name] : {std::pair{SegmentReduction::sum, "sum"},
                                        std::pair{SegmentReduction::mean, "mean"},
                                        std::pair{SegmentReduction::max, "max"}}) {
    add_draws(fmt::format("segment_gradient/{}", name),
              [reduction = reduction](auto& state, auto& lab, Draw draw) {
                segment_gradient(state, lab, draw, reduction);
              });
  }
  add_one("lengths_to_offsets", [](auto& state, auto& lab) { lengths(state, lab, true); });
  add_one("offsets_to_lengths", [](auto& state, auto& lab) { lengths(state, lab, false); });
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
