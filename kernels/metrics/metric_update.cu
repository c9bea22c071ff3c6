// SPDX-License-Identifier: Apache-2.0
#include "common/existing_places.hpp"
#include "common/launch.cuh"
#include "metrics/bucket_map.hpp"
#include "metrics/metric_math.hpp"
#include "metrics/metric_update.hpp"
#include "metrics/relevance_math.hpp"
#include "metrics/sample_keys.cuh"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

// One launch updates several metrics: blockIdx.y is the number of the metric, and the blocks of one
// metric divide the batch among them. All that blocks add to each other is integers.
namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 1024;
static_assert(Tally::words <= kThreads);

using Word = unsigned long long;

__device__ void add_word(std::uint64_t* to, std::uint64_t value) {
  if (value != 0) {
    atomicAdd(reinterpret_cast<Word*>(to), static_cast<Word>(value));
  }
}

/// Adds the first Count words of all threads of the block to words in device memory.
template <int Count>
__device__ void add_words(std::uint64_t const* own, std::uint64_t* to) {
  __shared__ std::uint64_t block[Count];
  auto const thread = static_cast<int>(threadIdx.x);
  if (thread < Count) {
    block[thread] = 0;
  }
  __syncthreads();
#pragma unroll
  for (int w = 0; w < Count; ++w) {
    auto word = static_cast<Word>(own[w]);
    if (__any_sync(kAllLanes, word != 0) == 0) {
      continue;
    }
    for (int distance = 16; distance > 0; distance /= 2) {
      word += __shfl_xor_sync(kAllLanes, word, distance);
    }
    if (thread % 32 == 0) {
      add_word(block + w, word);
    }
  }
  __syncthreads();
  if (thread < Count) {
    add_word(to + thread, block[thread]);
  }
}

__device__ void add_sums(MetricUpdate const& update, std::int64_t existing) {
  if (std::int64_t{blockIdx.x} * kThreads >= existing) {
    return;
  }
  TallyWords words;
  for (auto i = grid_thread(); i < existing; i += grid_stride()) {
    words.add_row(update, i);
  }
  add_words<Tally::words>(words.at, update.tally->at);
}

/// Returns, to one thread of the last block that calls it, true; all blocks have then read what
/// they need of the state before the update.
__device__ bool is_last_block(MetricUpdate const& update) {
  if (threadIdx.x != 0) {
    return false;
  }
  __threadfence();
  auto const finished = atomicAdd(reinterpret_cast<Word*>(&update.tally->finished), Word{1});
  if (finished + 1 != gridDim.x) {
    return false;
  }
  update.tally->finished = 0;
  return true;
}

/// Keeps the batch behind the examples that earlier updates have kept. The last block to finish
/// advances the number of examples, so that all blocks read the same one.
__device__ void keep(MetricUpdate const& update, std::int64_t existing) {
  __shared__ std::int64_t begin;
  if (threadIdx.x == 0) {
    begin = static_cast<std::int64_t>(update.tally->at[Tally::examples]);
  }
  __syncthreads();
  TallyWords words;
  unsigned max_weight = 0;
  for (auto i = grid_thread(); i < existing; i += grid_stride()) {
    // A row that is left out is kept with zeros, so that it cannot disturb the sort.
    bool const counts = weight_of(update, i) != 0.0F;
    float const weight = counts ? weight_of(update, i) : 0.0F;
    words.count(update, update.scores[i], update.labels[i], weight);
    auto const place = begin + i;
    if (place >= update.capacity) {
      continue;
    }
    update.kept_scores[place] = counts ? update.scores[i] : 0.0F;
    update.kept_labels[place] = counts && update.labels[i] > 0.5F ? 1 : 0;
    if (update.kept_weights != nullptr) {
      update.kept_weights[place] = weight;
      max_weight = max(max_weight, std::bit_cast<std::uint32_t>(weight));
    }
    if (update.kept_users != nullptr) {
      update.kept_users[place] = update.users.at(i);
    }
  }
  for (int w : {Tally::bad_scores, Tally::bad_labels, Tally::bad_weights}) {
    add_word(update.tally->at + w, words.at[w]);
  }
  if (update.kept_weights != nullptr) {
    for (int distance = 16; distance > 0; distance /= 2) {
      max_weight = max(max_weight, __shfl_xor_sync(kAllLanes, max_weight, distance));
    }
    if (threadIdx.x % 32 == 0 && max_weight != 0) {
      atomicMax(reinterpret_cast<Word*>(&update.tally->max_weight), Word{max_weight});
    }
  }
  if (is_last_block(update)) {
    update.tally->at[Tally::examples] = static_cast<std::uint64_t>(begin + existing);
  }
}

/// Returns, to all threads of a block, the first row whose weight is not 0; `existing` if there is
/// none.
__device__ std::int64_t first_that_counts(MetricUpdate const& update, std::int64_t existing) {
  __shared__ int first;
  auto const thread = static_cast<int>(threadIdx.x);
  for (std::int64_t begin = 0; begin < existing; begin += kThreads) {
    __syncthreads();
    if (thread == 0) {
      first = kThreads;
    }
    __syncthreads();
    if (begin + thread < existing && weight_of(update, begin + thread) != 0.0F) {
      atomicMin(&first, thread);
    }
    __syncthreads();
    if (first < kThreads) {
      return begin + first;
    }
  }
  return existing;
}

/// The last block to finish writes the knots, so that all blocks find the same ones.
__device__ void add_to_buckets(MetricUpdate const& update, std::int64_t existing) {
  if (first_that_counts(update, existing) == existing) {
    return;
  }
  __shared__ std::uint32_t knots[kMostKnots + 1];
  __shared__ BucketMap shared_map;
  bool const is_known = has_map(update);
  if (is_known) {
    if (threadIdx.x == 0) {
      shared_map = map_of(update);
      shared_map.knots = knots;
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < shared_map.knot_count; i += kThreads) {
      knots[i] = update.knots[i];
    }
  } else {
    int const sampled = sample_keys<kThreads>(update, existing, knots);
    sort_keys<kThreads>(knots);
    if (threadIdx.x == 0) {
      shared_map = map_of_sample(update.capacity, update.are_probabilities, knots, sampled);
    }
  }
  __syncthreads();
  auto const& map = shared_map;
  TallyWords words;
  for (auto i = grid_thread(); i < existing; i += grid_stride()) {
    float const label = update.labels[i];
    float const weight = weight_of(update, i);
    if (!words.count(update, update.scores[i], label, weight)) {
      continue;
    }
    auto const bucket = (label > 0.5F ? update.capacity : 0) + map.bucket_of(update.scores[i]);
    if (update.weights == nullptr) {
      // At the beginning of a training all scores are alike, so one lane adds for all lanes of its
      // warp that have the same bucket.
      auto const same = __match_any_sync(__activemask(), static_cast<unsigned>(bucket));
      if (static_cast<int>(threadIdx.x % 32) == __ffs(static_cast<int>(same)) - 1) {
        add_word(update.buckets + bucket, static_cast<std::uint64_t>(__popc(same)));
      }
      continue;
    }
    FixedSum digits;
    digits.add(weight);
    for (int d = 0; d < 3; ++d) {
      add_word(update.buckets + 3 * bucket + d, digits.digits[d]);
    }
  }
  words.at[Tally::examples] = 0;
  add_words<Tally::terms>(words.at, update.tally->at);
  if (is_last_block(update)) {
    update.tally->at[Tally::examples] = 1;
    if (!is_known) {
      update.tally->at[Tally::centre] = std::bit_cast<std::uint64_t>(map.centre);
      update.tally->at[Tally::knots] = static_cast<std::uint64_t>(map.knot_count);
      for (int i = 0; i < map.knot_count; ++i) {
        update.knots[i] = map.knots[i];
      }
    }
  }
}

__device__ void add_bad_offsets(MetricUpdate const& update, std::int64_t existing) {
  for (auto i = grid_thread(); i <= update.lists; i += grid_stride()) {
    add_word(update.tally->at + Tally::bad_offsets, is_bad_offset(update, i, existing) ? 1 : 0);
  }
}

/// Ranks the items of each list by comparing all with all. A block has one list at a time.
__device__ void add_gains(MetricUpdate const& update, std::int64_t existing) {
  constexpr float kLeftOut = std::numeric_limits<float>::quiet_NaN();
  __shared__ float scores[kThreads];
  __shared__ float grades[kThreads];
  __shared__ std::uint64_t sums[2][3];  // of the list's order and of the best order
  auto const thread = static_cast<int>(threadIdx.x);
  add_bad_offsets(update, existing);
  for (std::int64_t list = blockIdx.x; list < update.lists; list += gridDim.x) {
    auto const begin = clamped(update.offsets.at(list), existing);
    auto const end = clamped(update.offsets.at(list + 1), existing);
    if (thread < 3) {
      sums[0][thread] = 0;
      sums[1][thread] = 0;
    }
    FixedSum own[2];
    std::uint64_t bad_scores = 0;
    std::uint64_t bad_grades = 0;
    std::uint64_t bad_weights = 0;
    for (auto first = begin; first < end; first += kThreads) {
      auto const i = first + thread;
      float const score = i < end ? update.scores[i] : 0.0F;
      float const grade = i < end ? update.labels[i] : 0.0F;
      float const weight = i < end ? weight_of(update, i) : 0.0F;
      bool const counts = weight != 0.0F;
      bad_scores += !counts || score == score ? 0 : 1;
      bad_grades += !counts || is_grade(grade) ? 0 : 1;
      bad_weights += !counts || weight == 1.0F ? 0 : 1;
      Standing by_score;
      Standing by_grade;
      for (auto tile = begin; tile < end; tile += kThreads) {
        __syncthreads();
        if (tile + thread < end) {
          // No comparison with NaN holds, so that no item meets one that is left out.
          bool const meets = weight_of(update, tile + thread) != 0.0F;
          scores[thread] = meets ? update.scores[tile + thread] : kLeftOut;
          grades[thread] = meets ? update.labels[tile + thread] : kLeftOut;
        }
        __syncthreads();
        auto const in_tile = static_cast<int>(min(std::int64_t{kThreads}, end - tile));
        for (int k = 0; k < in_tile; ++k) {
          by_score.meet(scores[k], score);
          by_grade.meet(grades[k], grade);
        }
      }
      if (counts && score == score && is_grade(grade)) {
        double const gain = gain_of(update, grade);
        own[0].add(times(gain, by_score.discount(update)));
        own[1].add(times(gain, by_grade.discount(update)));
      }
    }
    add_word(update.tally->at + Tally::bad_offsets, bad_weights);
    bool const is_bad = __syncthreads_or(bad_scores + bad_grades != 0 ? 1 : 0) != 0;
    if (is_bad) {
      add_word(update.tally->at + Tally::bad_scores, bad_scores);
      add_word(update.tally->at + Tally::bad_labels, bad_grades);
    } else if (begin < end) {
      add_words<3>(own[0].digits, sums[0]);
      add_words<3>(own[1].digits, sums[1]);
    }
    __syncthreads();
    if (thread == 0 && !is_bad) {
      double const most = value_of(sums[1]);
      if (most > 0.0) {
        double const ratio = value_of(sums[0]) / most;
        FixedSum term;
        term.add(ratio < 1.0 ? ratio : 1.0);
        for (int d = 0; d < 3; ++d) {
          add_word(update.tally->at + Tally::terms + d, term.digits[d]);
        }
        add_word(update.tally->at + Tally::examples, 1);
      }
    }
    __syncthreads();
  }
}

/// Compares the items of each list with each other. A block has one list at a time.
__device__ void add_relevance(MetricUpdate const& update, std::int64_t existing) {
  constexpr float kLeftOut = std::numeric_limits<float>::quiet_NaN();
  __shared__ float scores[kThreads];
  __shared__ bool relevant[kThreads];
  __shared__ std::uint64_t sums[2][3];  // of merits, and of relevant items
  auto const thread = static_cast<int>(threadIdx.x);
  add_bad_offsets(update, existing);
  for (std::int64_t list = blockIdx.x; list < update.lists; list += gridDim.x) {
    auto const begin = clamped(update.offsets.at(list), existing);
    auto const end = clamped(update.offsets.at(list + 1), existing);
    if (thread < 3) {
      sums[0][thread] = 0;
      sums[1][thread] = 0;
    }
    FixedSum own[2];
    std::uint64_t bad_scores = 0;
    std::uint64_t bad_labels = 0;
    std::uint64_t bad_weights = 0;
    for (auto first = begin; first < end; first += kThreads) {
      auto const i = first + thread;
      float const score = i < end ? update.scores[i] : 0.0F;
      float const label = i < end ? update.labels[i] : 0.0F;
      float const weight = i < end ? weight_of(update, i) : 0.0F;
      bool const counts = weight != 0.0F;
      bad_scores += !counts || score == score ? 0 : 1;
      bad_labels += !counts || is_label(label) ? 0 : 1;
      bad_weights += !counts || weight == 1.0F ? 0 : 1;
      ListPlace place;
      for (auto tile = begin; tile < end; tile += kThreads) {
        __syncthreads();
        if (tile + thread < end) {
          // No comparison with NaN holds, so that no item meets one that is left out.
          bool const meets = weight_of(update, tile + thread) != 0.0F;
          scores[thread] = meets ? update.scores[tile + thread] : kLeftOut;
          relevant[thread] = is_relevant(update.labels[tile + thread]);
        }
        __syncthreads();
        auto const in_tile = static_cast<int>(min(std::int64_t{kThreads}, end - tile));
        for (int k = 0; k < in_tile; ++k) {
          place.meet(scores[k], score, relevant[k], tile + k < i);
        }
      }
      if (counts && score == score && is_label(label) && is_relevant(label)) {
        own[0].add(merit_of_item(update, place));
        own[1].add(1.0);
      }
    }
    add_word(update.tally->at + Tally::bad_offsets, bad_weights);
    bool const is_bad = __syncthreads_or(bad_scores + bad_labels != 0 ? 1 : 0) != 0;
    if (is_bad) {
      add_word(update.tally->at + Tally::bad_scores, bad_scores);
      add_word(update.tally->at + Tally::bad_labels, bad_labels);
    } else if (begin < end) {
      add_words<3>(own[0].digits, sums[0]);
      add_words<3>(own[1].digits, sums[1]);
    }
    __syncthreads();
    if (thread == 0 && !is_bad) {
      double const count = value_of(sums[1]);
      if (count > 0.0) {
        TallyWords words;
        words.add(Tally::terms, merit_of_list(update, value_of(sums[0]), count));
        words.add(Tally::weights, 1.0);
        words.at[Tally::examples] = 1;
        for (int w = 0; w < Tally::words; ++w) {
          add_word(update.tally->at + w, words.at[w]);
        }
      }
    }
    __syncthreads();
  }
}

/// Compares the target of each row with all scores of the row. A block has one row at a time.
__device__ void add_targets(MetricUpdate const& update, std::int64_t existing) {
  __shared__ std::uint64_t met[3];
  TallyWords words;  // of thread 0
  for (std::int64_t row = blockIdx.x; row < existing; row += gridDim.x) {
    Target target(update, row);
    if (target.weight == 0.0F) {
      continue;
    }
    __syncthreads();
    if (threadIdx.x < 3) {
      met[threadIdx.x] = 0;
    }
    for (std::int64_t column = threadIdx.x; column < update.columns; column += kThreads) {
      target.meet(update.scores[row * update.columns + column]);
    }
    std::uint64_t const own[] = {static_cast<std::uint64_t>(target.standing.above),
                                 static_cast<std::uint64_t>(target.standing.equal),
                                 static_cast<std::uint64_t>(target.nans)};
    add_words<3>(own, met);
    __syncthreads();
    if (threadIdx.x == 0) {
      target.standing = {static_cast<std::int64_t>(met[0]), static_cast<std::int64_t>(met[1])};
      target.nans = static_cast<std::int64_t>(met[2]);
      words.add_target(update, target);
    }
  }
  add_words<Tally::words>(words.at, update.tally->at);
}

__global__ void __launch_bounds__(kThreads)
    update_metrics_kernel(__grid_constant__ MetricUpdates const updates) {
  auto const& update = updates.at[blockIdx.y];
  auto const existing = existing_places(update.count, update.rows);
  switch (update.kind) {
    case MetricKind::loss:
    case MetricKind::calibration:
    case MetricKind::accuracy:
    case MetricKind::mean:
    case MetricKind::squared_error:
    case MetricKind::absolute_error:
      add_sums(update, existing);
      break;
    case MetricKind::kept:
      keep(update, existing);
      break;
    case MetricKind::buckets:
      add_to_buckets(update, existing);
      break;
    case MetricKind::gain:
      add_gains(update, existing);
      break;
    case MetricKind::relevance:
      add_relevance(update, existing);
      break;
    case MetricKind::target:
      add_targets(update, existing);
      break;
  }
}

}  // namespace

void update_metrics(CudaStream stream, MetricUpdates const& updates) {
  std::int64_t blocks = 0;
  for (int u = 0; u < updates.count; ++u) {
    auto const& update = updates.at[u];
    bool const has_lists = update.kind == MetricKind::gain || update.kind == MetricKind::relevance;
    blocks = std::max(blocks,
                      has_lists ? std::max<std::int64_t>(update.lists, 1)
                      : update.kind == MetricKind::target
                          ? update.rows
                          : ceil_div<std::int64_t>(update.rows, kThreads));
  }
  if (blocks == 0) {
    return;
  }
  dim3 const grid(static_cast<unsigned>(std::min(blocks, kMostBlocks)),
                  static_cast<unsigned>(updates.count));
  update_metrics_kernel<<<grid, kThreads, 0, stream>>>(updates);
  check_launch("update_metrics");
}

}  // namespace msstream::ops::kernels
