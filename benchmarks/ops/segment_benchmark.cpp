// SPDX-License-Identifier: Apache-2.0
#include "drawn.hpp"
#include "suite.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Segment reductions, sorted and not, and distinct ids, on a cold cache, beside a copy. Bytes are
/// those of the rows, an id of 8 bytes for each, and the output.
namespace benchmarks {
namespace {

using Sizes = axes::Kernels;
using ms::ops::SegmentReduction;
using Integers = std::vector<std::int64_t>;

/// Segments all alike in how many rows they get, or by a power law.
[[nodiscard]] std::string_view lengths_of(Draw draw) {
  return draw == Draw::uniform ? "even" : "power_law";
}

/// A device with what several benchmarks use, made when first asked for.
template <ms::Runtime R>
class Lab {
 public:
  explicit Lab(std::int64_t divisor) : divisor_(divisor) {}

  DeviceBench<R>& bench() {
    if (!bench_) {
      bench_.emplace(divisor_);
    }
    return *bench_;
  }
  [[nodiscard]] std::int64_t rows() { return bench().rows(Sizes::kSegmentRows); }
  [[nodiscard]] std::int64_t segments() { return bench().rows(Sizes::kSegments); }

  ms::Tensor<float, R> values(std::int64_t width) {
    if (!values_ || values_->shape()[1] != width) {
      values_.reset();
      values_.emplace(random_rows<float>(bench().device(), rows(), width));
    }
    return *values_;
  }
  ms::Tensor<std::int64_t, R> ids(Draw draw) {
    return tensor(ms::text("ids/", name_of(draw)), [&] { return segment_ids(draw); });
  }
  ms::Tensor<std::int64_t, R> sorted_ids(Draw draw) {
    return tensor(ms::text("sorted/", name_of(draw)), [&] {
      auto ids = segment_ids(draw);
      std::sort(ids.begin(), ids.end());
      return ids;
    });
  }
  ms::Tensor<std::int64_t, R> offsets(Draw draw) {
    return tensor(ms::text("offsets/", name_of(draw)), [&] {
      Integers offsets(static_cast<std::size_t>(segments()) + 1);
      for (auto const id : segment_ids(draw)) {
        ++offsets[static_cast<std::size_t>(id) + 1];
      }
      std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
      return offsets;
    });
  }
  [[nodiscard]] double bytes(std::int64_t width) {
    auto const row_bytes = static_cast<double>(width) * sizeof(float);
    return static_cast<double>(rows()) * (row_bytes + sizeof(std::int64_t)) +
           static_cast<double>(segments()) * row_bytes;
  }

 private:
  Integers segment_ids(Draw draw) { return drawn(rows(), segments(), draw); }

  template <class Make>
  ms::Tensor<std::int64_t, R> tensor(std::string const& name, Make const& make) {
    auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      auto const numbers = make();
      auto const count = static_cast<std::int64_t>(numbers.size());
      found =
          tensors_.emplace(name, put_ids<std::int64_t>(bench().device(), numbers, ms::Shape{count}))
              .first;
    }
    return found->second;
  }

  std::int64_t divisor_;
  std::optional<DeviceBench<R>> bench_;
  std::optional<ms::Tensor<float, R>> values_;
  std::map<std::string, ms::Tensor<std::int64_t, R>> tensors_;
};

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
  auto const add_one = [lab = std::make_shared<Lab<R>>(divisor)](std::string const& what,
                                                                 auto function) {
    add(ms::text("segment/", R::name, '/', what), 1, [=](benchmark::State& state) {
      function(state, *lab);
    });
  };
  for (auto const width : Sizes::kSegmentWidths) {
    for (auto const draw : kDraws) {
      for (auto const& [reduction, name] : {std::pair{SegmentReduction::sum, "sum"},
                                            std::pair{SegmentReduction::mean, "mean"},
                                            std::pair{SegmentReduction::max, "max"},
                                            std::pair{SegmentReduction::min, "min"}}) {
        add_one(ms::text("sorted/", name, '/', lengths_of(draw), "/width:", width),
                [=, reduction = reduction](auto& state, auto& lab) {
                  auto const values = lab.values(width);
                  auto const offsets = lab.offsets(draw);
                  lab.bench().measure_cold(state, {.bytes = lab.bytes(width)}, [&] {
                    benchmark::DoNotOptimize(ms::ops::segment_reduce(values, offsets, reduction));
                  });
                });
      }
      add_one(ms::text("sorted_ids/sum/", lengths_of(draw), "/width:", width),
              [=](auto& state, auto& lab) {
                auto const values = lab.values(width);
                auto const ids = lab.sorted_ids(draw);
                lab.bench().measure_cold(state, {.bytes = lab.bytes(width)}, [&] {
                  benchmark::DoNotOptimize(ms::ops::sorted_segment_reduce(
                      values, ids, lab.segments(), SegmentReduction::sum));
                });
              });
      for (bool const deterministic : {true, false}) {
        add_one(ms::text("unsorted_sum/",
                         deterministic ? "deterministic/" : "fast/",
                         name_of(draw),
                         "/width:",
                         width),
                [=](auto& state, auto& lab) {
                  auto const values = lab.values(width);
                  auto const ids = lab.ids(draw);
                  lab.bench().measure_cold(state, {.bytes = lab.bytes(width)}, [&] {
                    benchmark::DoNotOptimize(
                        ms::ops::unsorted_segment_reduce(values,
                                                         ids,
                                                         lab.segments(),
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
        add_one(ms::text("unique/", bounded ? "bounded/" : "any/", name_of(draw), "/ids:", count),
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
