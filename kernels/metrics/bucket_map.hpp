// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "metrics/metric_math.hpp"

#include <bit>
#include <cmath>
#include <cstdint>

/// The buckets of scores of a BucketedAuc.
namespace msstream::ops::kernels {

/// Returns the number of bits that x needs, 0 for 0.
MSSTREAM_HOST_DEVICE inline int bits_of(std::uint32_t x) {
#if defined(__CUDA_ARCH__)
  return 32 - __clz(static_cast<int>(x));
#else
  return std::bit_width(x);
#endif
}

/// Returns the float32 number whose ordered_bits() are `key`.
MSSTREAM_HOST_DEVICE inline float number_of_key(std::uint32_t key) {
  return std::bit_cast<float>((key >> 31U) != 0 ? key & 0x7FFFFFFFU : ~key);
}

/// Returns the bucket of a logit that is `distance` above a centre, among `count` buckets, a power
/// of two of at least 128. On each side of the centre, each power of two of the distance, from
/// 2^-48 to 2^16, has as many buckets as every other.
MSSTREAM_HOST_DEVICE inline std::int64_t bucket_at(double distance, std::int64_t count) {
  constexpr std::uint64_t kLeast = std::uint64_t{1023 - 48} << 52U;  // the bits of 2^-48
  unsigned octave_bits = 0;
  while ((std::int64_t{128} << octave_bits) < count) {
    ++octave_bits;
  }
  auto const bits = std::bit_cast<std::uint64_t>(std::fabs(distance));
  auto const half = count / 2;
  auto const key =
      bits < kLeast ? 0 : static_cast<std::int64_t>((bits - kLeast) >> (52U - octave_bits));
  auto const within = key < half ? key : half - 1;
  return distance < 0.0 ? half - 1 - within : half + within;
}

/// Returns 32 times the logarithm of x to the base of 2, rounded down and at least 0, where powers
/// of two are divided into 32 equal parts: from 0 to 1023.
MSSTREAM_HOST_DEVICE inline std::uint32_t log_steps(std::uint32_t x) {
  constexpr int kPartBits = 5;
  int const exponent = bits_of(x) - 1;
  if (exponent < 0) {
    return 0;
  }
  auto const parts = exponent >= kPartBits ? x >> static_cast<unsigned>(exponent - kPartBits)
                                           : x << static_cast<unsigned>(kPartBits - exponent);
  return (static_cast<std::uint32_t>(exponent) << unsigned{kPartBits}) +
         (parts & ((1U << unsigned{kPartBits}) - 1));
}

/// The most knots of a BucketMap of `buckets` buckets, which leaves 32 buckets between two.
inline constexpr int kMostKnots = 1023;
MSSTREAM_HOST_DEVICE inline int most_knots(std::int64_t buckets) {
  auto const most = buckets / 64 - 1;
  return most < kMostKnots ? static_cast<int>(most) : kMostKnots;
}

/// A rule that divides scores into buckets, which are ranges of scores in ascending order. A bucket
/// is what two rules have in common, each with half of the buckets: a score's bucket is the sum of
/// its buckets by both, which differs for two scores wherever one of the rules tells them apart.
///
/// The first rule has bucket_at() of the distance from the centre. The second one has equally many
/// buckets between any two neighbours among the knots, a sample of the scores: there, buckets of
/// equal width in units of the last place, halved and quartered by buckets whose width grows with
/// the distance from either neighbour. Without `has_knots`, the first rule has all buckets.
struct BucketMap {
  std::int64_t buckets;
  bool are_probabilities;
  bool has_knots;
  double centre;
  std::uint32_t const* knots;  ///< the ordered_bits() of scores, ascending and different
  int knot_count;
  unsigned interval_bits;  ///< buckets between two knots, as a power of two

  /// Sets `interval_bits` by the number of knots.
  MSSTREAM_HOST_DEVICE void divide() {
    interval_bits = 0;
    while ((std::int64_t{knot_count} + 1) << (interval_bits + 1) <= buckets / 2) {
      ++interval_bits;
    }
  }
  [[nodiscard]] MSSTREAM_HOST_DEVICE std::int64_t bucket_of(float score) const {
    auto const by_centre =
        bucket_at(logit_of(score, are_probabilities) - centre, has_knots ? buckets / 2 : buckets);
    return has_knots ? by_centre + by_knots(ordered_bits(score)) : by_centre;
  }
  /// Return the smallest and the largest key of a score between the knots `interval - 1` and
  /// `interval`.
  [[nodiscard]] MSSTREAM_HOST_DEVICE std::uint32_t first_of(int interval) const {
    constexpr std::uint32_t kZero = 0x80000000U;
    constexpr std::uint32_t kLeast = 0x007FFFFFU;  // of -infinity
    return interval > 0 ? knots[interval - 1] : are_probabilities ? kZero : kLeast;
  }
  [[nodiscard]] MSSTREAM_HOST_DEVICE std::uint32_t last_of(int interval) const {
    constexpr std::uint32_t kOne = 0xBF800000U;
    constexpr std::uint32_t kMost = 0xFF800000U;  // of infinity
    return interval < knot_count ? knots[interval] - 1U : are_probabilities ? kOne : kMost;
  }
  /// Returns whether all scores of an interval have a bucket of their own.
  [[nodiscard]] MSSTREAM_HOST_DEVICE bool is_exact(int interval) const {
    return bits_of(last_of(interval) - first_of(interval)) < static_cast<int>(interval_bits);
  }

 private:
  [[nodiscard]] MSSTREAM_HOST_DEVICE std::int64_t by_knots(std::uint32_t key) const {
    int interval = 0;
    for (int end = knot_count; interval < end;) {
      int const middle = (interval + end) / 2;
      if (knots[middle] <= key) {
        interval = middle + 1;
      } else {
        end = middle;
      }
    }
    auto const first = first_of(interval);
    auto const width = last_of(interval) - first;
    auto const below = key - first;
    int const shift = bits_of(width) - static_cast<int>(interval_bits - 1);
    auto const linear = below >> static_cast<unsigned>(shift > 0 ? shift : 0);
    auto const log_bits = interval_bits - 2 < 10 ? interval_bits - 2 : 10U;
    auto const from_first = log_steps(below) >> (10U - log_bits);
    auto const from_last = (1U << log_bits) - 1U - (log_steps(width - below) >> (10U - log_bits));
    return (std::int64_t{interval} << interval_bits) +
           static_cast<std::int64_t>(linear + from_first + from_last);
  }
};

/// Returns whether a row may be a knot.
MSSTREAM_HOST_DEVICE inline bool is_sampled(MetricUpdate const& update, std::int64_t row) {
  return weight_of(update, row) != 0.0F && update.scores[row] == update.scores[row];
}

/// Returns whether the buckets of a metric are known before an update.
MSSTREAM_HOST_DEVICE inline bool has_map(MetricUpdate const& update) {
  return update.has_centre || update.tally->at[Tally::examples] != 0;
}

/// Returns the buckets of a metric that has_map(), with its knots in device memory.
MSSTREAM_HOST_DEVICE inline BucketMap map_of(MetricUpdate const& update) {
  auto const& at = update.tally->at;
  BucketMap map{update.capacity,
                update.are_probabilities,
                update.knots != nullptr,
                update.has_centre ? update.bound : std::bit_cast<double>(at[Tally::centre]),
                update.knots,
                update.has_centre ? update.knot_count : static_cast<int>(at[Tally::knots]),
                0};
  map.divide();
  return map;
}

/// Makes the buckets of a metric from `count` keys of a sample, in ascending order, of which each
/// is kept once. The centre is the logit of their median, or of the lower of two; infinite logits
/// do not count, and if there are no others, the centre is 0.
MSSTREAM_HOST_DEVICE inline BucketMap map_of_sample(std::int64_t buckets,
                                                    bool are_probabilities,
                                                    std::uint32_t* keys,
                                                    int count) {
  auto const is_infinite = [&](int i) {
    double const logit = logit_of(number_of_key(keys[i]), are_probabilities);
    return logit - logit != 0.0;
  };
  int first = 0;
  while (first < count && is_infinite(first)) {
    ++first;
  }
  int last = count - 1;
  while (last > first && is_infinite(last)) {
    --last;
  }
  double const centre =
      first < count ? logit_of(number_of_key(keys[first + (last - first) / 2]), are_probabilities)
                    : 0.0;
  int kept = 0;
  for (int i = 0; i < count; ++i) {
    if (kept == 0 || keys[kept - 1] != keys[i]) {
      keys[kept++] = keys[i];
    }
  }
  BucketMap map{buckets, are_probabilities, true, centre, keys, kept, 0};
  map.divide();
  return map;
}

}  // namespace msstream::ops::kernels
