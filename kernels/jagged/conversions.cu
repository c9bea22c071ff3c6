// SPDX-License-Identifier: Apache-2.0
#include "common/move_rows.cuh"
#include "common/search.hpp"
#include "ids/bag_offsets.cuh"
#include "ids/bag_report.cuh"
#include "ids/report_bad_bags.cuh"
#include "jagged/jagged.hpp"

namespace msstream::ops::kernels {
namespace {

__host__ __device__ BagOffsets<std::int64_t> offsets_of(JaggedLayout const& layout) {
  return {layout.offsets, layout.batch, layout.capacity};
}

/// Returns whether any sample of [first, last] has invalid offsets, and reports those samples among
/// them for which `reports` returns true. All threads of a block must call any_is_bad() together.
template <class Reports>
__device__ bool any_is_bad(JaggedLayout const& layout,
                           std::int64_t first,
                           std::int64_t last,
                           Reports const& reports) {
  auto const offsets = offsets_of(layout);
  bool const good =
      first > last || looks_good(offsets, first, last, static_cast<int>(threadIdx.x), kMoveThreads);
  if (__syncthreads_and(good ? 1 : 0) != 0) {
    return false;
  }
  bool any = false;
  for (auto sample = first + threadIdx.x; sample <= last; sample += kMoveThreads) {
    if (offsets.is_bad(sample)) {
      any = true;
      if (reports(sample)) {
        report_bad(layout.report, offsets, sample);
      }
    }
  }
  return __syncthreads_or(any ? 1 : 0) != 0;
}

struct ToDense {
  JaggedLayout layout;
  bool any_bad = true;  ///< whether at() may be called for samples with invalid offsets

  __device__ std::int64_t count() const { return layout.batch * layout.max_length; }

  /// Returns a copy of this object for the dense rows [begin, end), with `any_bad` set to whether a
  /// sample of one of the rows has invalid offsets.
  __device__ ToDense within(std::int64_t begin, std::int64_t end) const {
    ToDense checked = *this;
    auto const first = begin / layout.max_length;
    checked.any_bad = any_is_bad(layout, first, (end - 1) / layout.max_length, [&](auto sample) {
      return sample * layout.max_length >= begin && blockIdx.y == 0;
    });
    return checked;
  }

  __device__ RowMove at(std::int64_t i) const {
    auto const sample = i / layout.max_length;
    auto const place = layout.offsets[sample] + (i - sample * layout.max_length);
    bool const exists =
        place < layout.offsets[sample + 1] && !(any_bad && offsets_of(layout).is_bad(sample));
    return {exists ? place : -1, i};
  }
};

/// The samples of jagged rows.
struct SamplesOfRows {
  JaggedLayout layout;
  std::int64_t low = 0;              ///< the first sample that may have a row of the range
  std::int64_t high = layout.batch;  ///< one after the last sample that may have a row of the range
  bool any_bad = true;               ///< whether a sample from low to high has invalid offsets

  /// Returns a copy of this object for the jagged rows [begin, end), with the range of samples that
  /// those rows may belong to. The blocks with blockIdx.y 0 together report all samples with
  /// invalid offsets. All kMoveThreads threads of a block must call within() together.
  __device__ SamplesOfRows within(std::int64_t begin, std::int64_t end) const {
    __shared__ std::int64_t ends[2];
    auto const offsets = offsets_of(layout);
    if (threadIdx.x < 64) {
      auto const sample = candidate_for(LaneGroup(32), offsets, threadIdx.x < 32 ? begin : end - 1);
      if (threadIdx.x % 32 == 0) {
        ends[threadIdx.x / 32] = sample;
      }
    }
    __syncthreads();
    SamplesOfRows narrowed = *this;
    narrowed.low = min(ends[0], layout.batch);
    narrowed.high = min(ends[1] + 1, layout.batch);
    auto const nobody = [](auto) { return false; };
    narrowed.any_bad = any_is_bad(layout, narrowed.low, narrowed.high - 1, nobody);
    if (blockIdx.y == 0) {
      report_own_share();
    }
    return narrowed;
  }

  /// Returns the sample of a jagged row, or -1 if the row belongs to no sample.
  __device__ std::int64_t sample_of(std::int64_t row) const {
    std::int64_t sample = -1;
    if (any_bad) {
      sample = offsets_of(layout).bag_of(row);
    } else if (low < high) {
      sample = low + count_not_above(layout.offsets + low, high - low + 1, row) - 1;
    }
    return sample < low || sample >= high ? -1 : sample;
  }

 private:
  /// Reports the samples with invalid offsets among the samples that the calling thread checks, if
  /// the report has a count or a trap. The threads of the grid share all samples.
  __device__ void report_own_share() const {
    if (layout.report.count == nullptr && layout.report.trap == nullptr) {
      return;
    }
    auto const offsets = offsets_of(layout);
    for (auto sample = grid_thread(); sample < layout.batch; sample += grid_stride()) {
      if (offsets.is_bad(sample)) {
        report_bad(layout.report, offsets, sample);
      }
    }
  }
};

struct ToJagged {
  SamplesOfRows samples;

  __device__ std::int64_t count() const { return samples.layout.capacity; }
  __device__ ToJagged within(std::int64_t begin, std::int64_t end) const {
    return {samples.within(begin, end)};
  }
  __device__ RowMove at(std::int64_t i) const {
    auto const& layout = samples.layout;
    auto const sample = samples.sample_of(i);
    auto const row = sample >= 0 ? i - layout.offsets[sample] : layout.max_length;
    return {row < layout.max_length ? sample * layout.max_length + row : -1, i};
  }
};

struct Repeats {
  SamplesOfRows samples;

  __device__ std::int64_t count() const { return samples.layout.capacity; }
  __device__ Repeats within(std::int64_t begin, std::int64_t end) const {
    return {samples.within(begin, end)};
  }
  __device__ RowMove at(std::int64_t i) const { return {samples.sample_of(i), i}; }
};

constexpr int kIdsAThread = 4;

__global__ void __launch_bounds__(kMoveThreads) segment_ids_kernel(SegmentIdsArgs args) {
  auto const begin = std::int64_t{blockIdx.x} * (kMoveThreads * kIdsAThread);
  auto const end = min(begin + kMoveThreads * kIdsAThread, args.layout.capacity);
  auto const samples = SamplesOfRows{args.layout}.within(begin, end);
  for (auto row = begin + threadIdx.x; row < end; row += kMoveThreads) {
    args.ids[row] = samples.sample_of(row);
  }
}

/// Copies `rows` rows between the jagged form and another. If there is nothing to write, only
/// reports the samples with invalid offsets.
template <class Moves>
void move_samples(CudaStream stream,
                  char const* operation,
                  JaggedLayout const& layout,
                  Moves const& moves,
                  std::int64_t rows,
                  void const* from,
                  void* to,
                  RowFill const& fill = {}) {
  if (rows == 0 || layout.row_bytes == 0) {
    report_bad_bags(stream, operation, offsets_of(layout), layout.report);
  } else {
    move_rows(stream, operation, moves, rows, layout.row_bytes, from, to, fill);
  }
}

}  // namespace

void jagged_to_dense(CudaStream stream, JaggedToDenseArgs const& args) {
  move_samples(stream,
               "jagged_to_dense",
               args.layout,
               ToDense{args.layout},
               args.layout.batch * args.layout.max_length,
               args.values,
               args.dense,
               RowFill(args.padding_bits, args.element_bytes));
}

void dense_to_jagged(CudaStream stream, DenseToJaggedArgs const& args) {
  move_samples(stream,
               "dense_to_jagged",
               args.layout,
               ToJagged{{args.layout}},
               args.layout.capacity,
               args.dense,
               args.values);
}

void repeat_rows(CudaStream stream, RepeatRowsArgs const& args) {
  move_samples(stream,
               "repeat_rows",
               args.layout,
               Repeats{{args.layout}},
               args.layout.capacity,
               args.rows,
               args.output);
}

void segment_ids(CudaStream stream, SegmentIdsArgs const& args) {
  auto const& layout = args.layout;
  if (layout.capacity == 0) {
    return report_bad_bags(stream, "segment_ids", offsets_of(layout), layout.report);
  }
  auto const blocks = grid_for(layout.capacity, kMoveThreads * kIdsAThread);
  segment_ids_kernel<<<blocks, kMoveThreads, 0, stream>>>(args);
  check_launch("segment_ids");
}

}  // namespace msstream::ops::kernels
