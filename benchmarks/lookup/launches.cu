// SPDX-License-Identifier: Apache-2.0
#include "drawn_ids.cuh"
#include "embedding/lookup.hpp"
#include "embedding/lookup_kernels.cuh"
#include "embedding/plain_lookup.cuh"
#include "embedding/plain_tuning.hpp"
#include "shapes.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#ifdef MSSTREAM_BENCHMARK_CUEMBED
#include <cuembed/include/embedding_lookup.cuh>
#endif

/// Times of candidate launches of lookups, from which the rules of kernels/embedding/tuning.hpp are
/// fitted, over the shapes of sweep.cu on a cold cache. Prints a line of comma-separated values per
/// shape and candidate: the shape, the kernel, the columns of a load, the lanes of a group, the
/// groups per bag, the threads of a block, the bags of a run, microseconds. `rule` is what
/// embedding_lookup() launches, `cuembed` what cuEmbed does if the program was compiled with
/// MSSTREAM_BENCHMARK_CUEMBED. Rows of bfloat16 are measured as float16. The argument is a limit in
/// seconds, by default 100; shapes after it are left out.
namespace msstream::ops::kernels {
namespace {

using benchmarks::lookups::Shape;

constexpr std::size_t kFlushedBytes = std::size_t{128} << 20;
constexpr int kFirstRounds = 3;
constexpr int kMoreRounds = 6;
constexpr double kWorthMore = 1.12;  ///< times of the best so far

void check(cudaError_t code) {
  if (code != cudaSuccess) {
    std::fprintf(stderr, "%s\n", cudaGetErrorString(code));
    std::exit(1);
  }
}

class Clock {
 public:
  Clock() {
    check(cudaStreamCreate(&stream_));
    check(cudaMalloc(&flushed_, kFlushedBytes));
    for (auto& pair : events_) {
      for (auto& event : pair) {
        check(cudaEventCreate(&event));
      }
    }
  }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  /// Returns the median time of a launch in microseconds.
  double median_of(int rounds, std::function<void()> const& launch) {
    for (int round = 0; round < rounds; ++round) {
      check(cudaMemsetAsync(flushed_, round, kFlushedBytes, stream_));
      check(cudaEventRecord(events_[round][0], stream_));
      launch();
      check(cudaEventRecord(events_[round][1], stream_));
    }
    check(cudaStreamSynchronize(stream_));
    std::vector<double> all;
    for (int round = 0; round < rounds; ++round) {
      float ms = 0;
      check(cudaEventElapsedTime(&ms, events_[round][0], events_[round][1]));
      all.push_back(static_cast<double>(ms) * 1e3);
    }
    return benchmarks::lookups::median(all);
  }

 private:
  cudaStream_t stream_ = nullptr;
  void* flushed_ = nullptr;
  cudaEvent_t events_[kMoreRounds][2];
};

struct Candidate {
  std::string name;
  std::function<void()> launch;
};

/// The launches of one shape.
template <class T, class Id>
class Candidates {
 public:
  Candidates(cudaStream_t stream, LookupArgs const& args)
      : stream_(stream), args_(args), bags_(args.bags) {}

  template <int Count>
  void add_all() {
    if (args_.width % Count != 0) {
      return;
    }
    auto const loads = args_.width / Count;
    std::vector<BagShare> shares{share_of(loads)};
    for (int log2 = 2; log2 <= 5; ++log2) {
      auto const slices = (loads + (1 << log2) - 1) >> log2;
      BagShare const share{log2, static_cast<int>(std::min<std::int64_t>(slices, 4))};
      bool const is_wasteful = share.lanes() * 2 >= loads * 3 && slices > 1;
      bool const is_known = share.log2_lanes == shares[0].log2_lanes;
      if (!is_known && !is_wasteful && (slices <= 4 || log2 == 5) && (1 << log2) < 2 * loads) {
        shares.push_back(share);
      }
    }
    for (auto const& share : shares) {
      for (int const threads : {64, 128}) {
        add_rolled<Count, RolledBags<4, 1, 48, true>>("R4w48", share, threads);
        add_rolled<Count, RolledBags<4, 1, 36, true>>("R4w36", share, threads);
        add_rolled<Count, RolledBags<8, 2, 28, true>>("R8w28", share, threads);
        add_rolled<Count, RolledBags<8, 2, 20, true>>("R8w20", share, threads);
        add_rolled<Count, RolledBags<16, 4, 16, true>>("R16w16", share, threads);
        add_rolled<Count, RolledBags<32, 8, 8, true>>("R32w8", share, threads);
        add_runs<Count, RunsOfBags<4, 2, 40>>("F4w40", share, threads);
        add_runs<Count, RunsOfBags<8, 2, 28>>("F8w28", share, threads);
      }
      if (args_.bags.hotness == 1) {
        add<Count, ShortBags>("G8w32", share, 128, 1);
      }
    }
    for (int const threads : {64, 128, 256}) {
      add_plain<Count>(threads);
    }
  }
  [[nodiscard]] std::vector<Candidate> const& all() const { return all_; }

 private:
  /// Adds the launches of plain_lookup.cuh in blocks of at least `threads` threads.
  template <int Count>
  void add_plain(int threads) {
    switch (args_.bags.hotness) {
      case 1:
        return add_few<Count, 1>(threads);
      case 2:
        return add_few<Count, 2>(threads);
      case 3:
        return add_few<Count, 3>(threads);
      case 5:
        return add_few<Count, kFewIds>(threads);
      default:
        add_staged<Count, 4>("S4", threads);
        add_staged<Count, 8>("S8", threads);
        add_staged<Count, 16>("S16", threads);
    }
  }
  template <int Count, int Ids>
  void add_few(int threads) {
    add_plain_kernel<Count>("P", pool_few_ids<T, Count, Id, T, Ids>, threads, 0);
  }
  template <int Count, int InFlight>
  void add_staged(char const* name, int threads) {
    auto const hotness = args_.bags.hotness;
    auto const a_bag = std::int64_t{4} * staged_rows(static_cast<std::uint32_t>(hotness));
    if (hotness <= kRowsOfPart) {
      add_plain_kernel<Count>(
          name, pool_staged_ids<T, Count, Id, T, InFlight, Parts::one>, threads, a_bag);
    } else if (hotness <= 2 * kRowsOfPart) {
      add_plain_kernel<Count>(
          name, pool_staged_ids<T, Count, Id, T, InFlight, Parts::two>, threads, a_bag);
    } else {
      add_plain_kernel<Count>(name,
                              pool_staged_ids<T, Count, Id, T, InFlight, Parts::many>,
                              threads,
                              a_bag + 8 * args_.width);
    }
  }
  template <int Count, class Kernel>
  void add_plain_kernel(char const* name, Kernel kernel, int threads, std::int64_t bytes_of_bag) {
    int const lanes = static_cast<int>(args_.width / Count);
    int const bags = bags_of_block(lanes, threads);
    if (lanes > kPlainThreads || bags * bytes_of_bag > kMostSharedBytes) {
      return;
    }
    PlainLookup<T, Id> const lookup{static_cast<T const*>(args_.table),
                                    bags_.ids,
                                    args_.output,
                                    static_cast<std::uint32_t>(args_.rows),
                                    static_cast<std::uint32_t>(args_.width),
                                    static_cast<std::uint32_t>(args_.bags.bags),
                                    static_cast<std::uint32_t>(args_.bags.hotness),
                                    args_.report};
    dim3 const block(static_cast<unsigned>(lanes), static_cast<unsigned>(bags));
    auto const blocks = grid_for(args_.bags.bags, bags);
    add_launch(std::string(name) + "," + std::to_string(Count) + "," + std::to_string(lanes) +
                   ",1," + std::to_string(lanes * bags) + ",1",
               [=, this] {
                 kernel<<<blocks, block, bags * bytes_of_bag, stream_>>>(lookup);
                 check(cudaGetLastError());
               });
  }
  template <int Count, class Tuning>
  void add_rolled(char const* name, BagShare const& share, int threads) {
    auto const in_flight = static_cast<double>(Tuning::kRowsInFlight * args_.width * sizeof(T)) *
                           static_cast<double>(args_.bags.bags);
    // Rows in flight of which most would be beyond the end of a bag, or many times what the
    // machine needs, are not candidates.
    bool const is_idle =
        Tuning::kRowsInFlight > 4 && Tuning::kRowsInFlight >= 2 * args_.bags.hotness;
    bool const is_far = Tuning::kRowsInFlight > 8 && in_flight > 40.0 * kBytesInFlight;
    if (!is_idle && !is_far) {
      add<Count, Tuning>(name, share, threads, 1);
    }
  }
  template <int Count, class Tuning>
  void add_runs(char const* name, BagShare const& share, int threads) {
    auto const hotness = args_.bags.hotness;
    if (hotness > Tuning::kRowsInFlight || 2 * hotness < Tuning::kRowsInFlight) {
      return;
    }
    for (int const run : {1, 2, 4, 8}) {
      if (run * hotness <= Tuning::kIdsALane << share.log2_lanes) {
        add<Count, Tuning>(name, share, threads, run);
      }
    }
  }
  template <int Count, class Tuning>
  void add(char const* name, BagShare const& share, int most_threads, int run) {
    int const lanes = 1 << share.log2_lanes;
    if (lanes * Tuning::kIdsALane < std::max(Tuning::kRowsInFlight, Tuning::kBagsAGroup)) {
      return;
    }
    int const threads = share.threads(most_threads);
    BagLanes const shape(args_.width, Count, share, threads, run);
    auto const a_group = Tuning::kRunsBags ? run : Tuning::kBagsAGroup;
    auto const blocks = grid_for(args_.bags.bags, shape.runs_a_block * a_group);
    auto const turns = ceil_div<std::int64_t>(args_.width, std::int64_t{share.lanes()} * Count);
    dim3 const grid(blocks, static_cast<unsigned>(turns));
    auto const key = std::string(name) + "," + std::to_string(Count) + "," + std::to_string(lanes) +
                     "," + std::to_string(share.slices) + "," + std::to_string(threads) + "," +
                     std::to_string(run);
    add_launch(key, [=, this] {
      lookup_kernel<T, Count, Id, SharedIds, SumCombiner, Tuning>
          <<<grid, threads, 0, stream_>>>(args_, bags_, shape);
      check(cudaGetLastError());
    });
  }
  /// Adds a launch, unless it is known.
  void add_launch(std::string const& key, std::function<void()> launch) {
    if (std::none_of(
            all_.begin(), all_.end(), [&](auto const& known) { return known.name == key; })) {
      all_.push_back({key, std::move(launch)});
    }
  }

  cudaStream_t stream_;
  LookupArgs args_;
  IdBags<Id> bags_;
  std::vector<Candidate> all_;
};

template <class T, class Id>
void measure(Clock& clock, Shape const& shape, void* table, void* ids, void* output) {
  auto const places = shape.bags * shape.hotness;
  benchmarks::lookups::
      draw_ids<<<static_cast<unsigned>((places + 255) / 256), 256, 0, clock.stream()>>>(
          static_cast<Id*>(ids), places, shape.rows, shape.alpha);
  auto const dtype = sizeof(T) == 4 ? DType::float32 : DType::float16;
  LookupArgs args{};
  args.table = table;
  args.table_dtype = dtype;
  args.rows = shape.rows;
  args.width = shape.width;
  args.bags.ids = ids;
  args.bags.id_dtype = sizeof(Id) == 4 ? DType::int32 : DType::int64;
  args.bags.bags = shape.bags;
  args.bags.capacity = places;
  args.bags.hotness = shape.hotness;
  args.pooling = Pooling::sum;
  args.output = output;
  args.output_dtype = dtype;
  Candidates<T, Id> candidates(clock.stream(), args);
  candidates.template add_all<16 / static_cast<int>(sizeof(T))>();
  if constexpr (sizeof(T) == 2) {
    if (shape.width <= 96) {
      candidates.template add_all<4>();
    }
  }
  std::vector<Candidate> all{{"rule,0,0,0,0,0", [&] {
                                embedding_lookup(CudaStream{clock.stream(), nullptr}, args);
                              }}};
#ifdef MSSTREAM_BENCHMARK_CUEMBED
  using Element = std::conditional_t<sizeof(T) == 2, __half, float>;
  all.push_back({"cuembed,0,0,0,0,0", [&] {
                   cuembed::EmbeddingForward<Element, Element, Id, int>(
                       static_cast<Element const*>(table),
                       static_cast<int>(shape.width),
                       static_cast<Id const*>(ids),
                       nullptr,
                       nullptr,
                       static_cast<int>(shape.bags),
                       static_cast<int>(shape.hotness),
                       cuembed::CombineMode::kSum,
                       static_cast<Element*>(output),
                       clock.stream());
                 }});
#endif
  all.insert(all.end(), candidates.all().begin(), candidates.all().end());
  double best = std::numeric_limits<double>::max();
  for (auto const& candidate : all) {
    double us = clock.median_of(kFirstRounds, candidate.launch);
    if (us < kWorthMore * best) {
      us = clock.median_of(kMoreRounds, candidate.launch);
      best = std::min(best, us);
    }
    std::printf("%s,%d,%ld,%ld,%ld,%.2f,%s,%.2f\n",
                sizeof(T) == 4 ? "f32" : "f16",
                shape.id_bits,
                shape.width,
                shape.bags,
                shape.hotness,
                shape.alpha,
                candidate.name.c_str(),
                us);
  }
  std::fflush(stdout);
}

void run(double most_seconds) {
  auto const shapes = benchmarks::lookups::shapes();
  double rows = 0;
  double ids = 0;
  double output = 0;
  for (auto const& shape : shapes) {
    rows = std::max(rows, static_cast<double>(shape.rows) * shape.row_bytes());
    ids = std::max(ids, static_cast<double>(shape.bags * shape.hotness) * shape.id_bits / 8);
    output = std::max(output, static_cast<double>(shape.bags) * shape.row_bytes());
  }
  auto const allocated = [](double bytes) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, static_cast<std::size_t>(bytes)));
    check(cudaMemset(memory, 0x11, static_cast<std::size_t>(bytes)));
    return memory;
  };
  auto* const table = allocated(rows);
  auto* const id_memory = allocated(ids);
  auto* const pooled = allocated(output);
  Clock clock;
  auto const begin = std::chrono::steady_clock::now();
  std::printf("rows,ids,width,bags,hotness,alpha,kernel,columns,lanes,slices,threads,run,us\n");
  // Every fifth shape in turn, so that a limit leaves out shapes of all kinds.
  for (std::size_t offset = 0; offset < 5; ++offset) {
    for (std::size_t number = offset; number < shapes.size(); number += 5) {
      auto const& shape = shapes[number];
      std::chrono::duration<double> const passed = std::chrono::steady_clock::now() - begin;
      if (passed.count() > most_seconds) {
        std::printf("limit,%zu of the shapes from %zu on, in steps of 5, left out\n",
                    shapes.size() / 5 - number / 5,
                    offset);
        return;
      }
      bool const is_float = shape.dtype == DType::float32;
      auto const measure_shape = is_float ? shape.id_bits == 32 ? &measure<float, std::int32_t>
                                                                : &measure<float, std::int64_t>
                                 : shape.id_bits == 32 ? &measure<float16, std::int32_t>
                                                       : &measure<float16, std::int64_t>;
      measure_shape(clock, shape, table, id_memory, pooled);
    }
  }
  std::chrono::duration<double> const passed = std::chrono::steady_clock::now() - begin;
  std::printf("done,%.0f s\n", passed.count());
}

}  // namespace
}  // namespace msstream::ops::kernels

int main(int count, char** arguments) {
  msstream::ops::kernels::run(count > 1 ? std::atof(arguments[1]) : 100.0);
}
