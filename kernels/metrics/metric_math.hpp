// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "common/is_finite.hpp"
#include "metrics/metric_update.hpp"

#include <bit>
#include <cmath>
#include <cstdint>

/// The arithmetic of metrics. Host and CUDA compute the same bits: products and sums are rounded
/// one by one or fused explicitly, and the functions exp and log are computed here.
namespace msstream::ops::kernels {

/// Returns a * b, rounded before any use. A compiler may fuse the operator * with an addition.
MSSTREAM_HOST_DEVICE inline double times(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}
/// Returns a + b for a product `a` or `b` that has been rounded.
MSSTREAM_HOST_DEVICE inline double plus(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dadd_rn(a, b);
#else
  return a + b;
#endif
}

inline constexpr double kLn2 = 0x1.62e42fefa39efp-1;
inline constexpr double kLn2Rest = 0x1.abc9e3b39803fp-56;  ///< ln 2 - kLn2
inline constexpr double kLog2E = 0x1.71547652b82fep+0;

/// Returns the power 2^n, for n in [-1022, 1023].
MSSTREAM_HOST_DEVICE inline double power_of_two(int n) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + n) << 52U);
}

/// Returns e^x for x in [-700, 700], within two units in the last place; e^0 is 1.
MSSTREAM_HOST_DEVICE inline double exp_of(double x) {
  double const n = std::floor(std::fma(x, kLog2E, 0.5));
  double const r = std::fma(-n, kLn2Rest, std::fma(-n, kLn2, x));  // |r| <= ln(2) / 2
  constexpr double kInverseFactorials[] = {1.0 / 6227020800.0,
                                           1.0 / 479001600.0,
                                           1.0 / 39916800.0,
                                           1.0 / 3628800.0,
                                           1.0 / 362880.0,
                                           1.0 / 40320.0,
                                           1.0 / 5040.0,
                                           1.0 / 720.0,
                                           1.0 / 120.0,
                                           1.0 / 24.0,
                                           1.0 / 6.0,
                                           0.5,
                                           1.0,
                                           1.0};
  double sum = 0.0;
  for (double const factor : kInverseFactorials) {
    sum = std::fma(sum, r, factor);
  }
  return times(sum, power_of_two(static_cast<int>(n)));
}

/// Returns the natural logarithm of a normal number v > 0, with an error below 2^-51 relative to 1
/// and to the result.
MSSTREAM_HOST_DEVICE inline double log_of(double v) {
  auto const bits = std::bit_cast<std::uint64_t>(v);
  int n = static_cast<int>(bits >> 52U) - 1023;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFU) | 0x3FF0000000000000U);
  if (m > 0x1.6a09e667f3bcdp+0) {  // sqrt(2)
    m = times(m, 0.5);
    ++n;
  }
  // log(m) = 2 atanh(s), and |s| < 0.172
  double const s = (m - 1.0) / plus(m, 1.0);
  double const z = times(s, s);
  double series = 1.0 / 23.0;
  for (int odd = 21; odd >= 3; odd -= 2) {
    series = std::fma(series, z, 1.0 / odd);
  }
  double const twice = times(2.0, s);
  double const of_m = std::fma(twice, times(z, series), twice);
  return std::fma(n, kLn2, std::fma(n, kLn2Rest, of_m));
}

/// An exact sum of numbers in [0, 2^32), each cut to a multiple of 2^-64, as three sums of 32-bit
/// digits. Holds 2^32 numbers.
struct FixedSum {
  std::uint64_t digits[3] = {0, 0, 0};  ///< in units of 2^-64, 2^-32 and 1

  MSSTREAM_HOST_DEVICE void add(double value) {
    // All differences and products are exact.
    double const whole = std::floor(value);
    double const middle = times(value - whole, 0x1p32);
    double const whole_middle = std::floor(middle);
    digits[2] += static_cast<std::uint64_t>(whole);
    digits[1] += static_cast<std::uint64_t>(whole_middle);
    digits[0] += static_cast<std::uint64_t>(times(middle - whole_middle, 0x1p32));
  }
};

/// Returns the value of the digits of a FixedSum.
MSSTREAM_HOST_DEVICE inline double value_of(std::uint64_t const* digits) {
  auto const rest = plus(times(static_cast<double>(digits[1]), 0x1p-32),
                         times(static_cast<double>(digits[0]), 0x1p-64));
  return plus(static_cast<double>(digits[2]), rest);
}

/// Returns the negative log likelihood of a label in [0, 1] under a logit, whose magnitude is first
/// limited to `bound`.
MSSTREAM_HOST_DEVICE inline double loss_of_logit(double logit, double label, double bound) {
  double const x = logit < -bound ? -bound : logit > bound ? bound : logit;
  double const linear = std::fma(-x, label, x > 0.0 ? x : 0.0);
  return plus(linear, log_of(1.0 + exp_of(-std::fabs(x))));
}

/// Returns the negative log likelihood of a label in [0, 1] under a probability. The probabilities
/// of both outcomes are first limited to [least, 1 - least].
MSSTREAM_HOST_DEVICE inline double loss_of_probability(double p, double label, double least) {
  double const most = 1.0 - least;
  double const other = 1.0 - p;
  double const positive = p < least ? least : p > most ? most : p;
  double const negative = other < least ? least : other > most ? most : other;
  double const of_positive = label > 0.0 ? times(label, log_of(positive)) : 0.0;
  double const of_negative = label < 1.0 ? times(1.0 - label, log_of(negative)) : 0.0;
  return -plus(of_positive, of_negative);
}

/// Returns the probability of a logit.
MSSTREAM_HOST_DEVICE inline double probability_of(double logit) {
  double const magnitude = std::fabs(logit);
  double const tail = magnitude > 700.0 ? 0.0 : exp_of(-magnitude);
  return (logit < 0.0 ? tail : 1.0) / plus(1.0, tail);
}

/// Returns 2^grade - 1, exactly if the grade is a whole number.
MSSTREAM_HOST_DEVICE inline double exponential_gain(double grade) {
  double const whole = std::floor(grade);
  double const power =
      times(exp_of(times(grade - whole, kLn2)), power_of_two(static_cast<int>(whole)));
  return power - 1.0;
}

/// Returns the bits of a float32 number that is not NaN in an order in which smaller numbers have
/// smaller bits; -0 and 0 have the same.
MSSTREAM_HOST_DEVICE inline std::uint32_t ordered_bits(float x) {
  auto const bits = std::bit_cast<std::uint32_t>(x == 0.0F ? 0.0F : x);
  return (bits >> 31U) != 0 ? ~bits : bits | 0x80000000U;
}

/// Returns the logit of a score, infinite for the probabilities 0 and 1.
MSSTREAM_HOST_DEVICE inline double logit_of(float score, bool is_probability) {
  double const p = score;
  if (!is_probability) {
    return p;
  }
  return p > 0.0 && p < 1.0 ? plus(log_of(p), -log_of(1.0 - p))
                            : std::bit_cast<double>((p >= 1.0 ? 0x7FFULL : 0xFFFULL) << 52U);
}

/// Returns the weight of a row, which leaves the row out if it is 0, whatever its other numbers
/// are.
MSSTREAM_HOST_DEVICE inline float weight_of(MetricUpdate const& update, std::int64_t row) {
  return update.weights != nullptr ? update.weights[row] : 1.0F;
}
MSSTREAM_HOST_DEVICE inline bool is_weight(float weight) {
  return weight >= 0.0F && weight <= kMostWeight;
}

/// The place of one item of a list among the others: how many have a higher value, and how many the
/// same, itself included.
struct Standing {
  std::int64_t above = 0;
  std::int64_t equal = 0;

  MSSTREAM_HOST_DEVICE void meet(float other, float own) {
    above += other > own ? 1 : 0;
    equal += other == own ? 1 : 0;
  }
  /// Returns the mean discount of the ranks that the item may have.
  [[nodiscard]] MSSTREAM_HOST_DEVICE double discount(MetricUpdate const& update) const {
    auto const first = above < update.places ? above : update.places;
    auto const last = above + equal < update.places ? above + equal : update.places;
    return (update.discounts[last] - update.discounts[first]) / static_cast<double>(equal);
  }
};

/// The target of a row of scores, and how many scores of the row are NaN.
struct Target {
  float weight;
  std::int64_t column;
  bool exists;
  float score = 0.0F;
  Standing standing;
  std::int64_t nans = 0;

  MSSTREAM_HOST_DEVICE Target(MetricUpdate const& update, std::int64_t row)
      : weight(weight_of(update, row)),
        column(update.targets.at(row)),
        exists(column >= 0 && column < update.columns) {
    if (exists) {
      score = update.scores[row * update.columns + column];
    }
  }
  MSSTREAM_HOST_DEVICE void meet(float other) {
    standing.meet(other, score);
    nans += other == other ? 0 : 1;
  }
  /// Returns the mean discount of the ranks that the target may have; 0 if -infinity takes it out
  /// of the ranking.
  [[nodiscard]] MSSTREAM_HOST_DEVICE double merit(MetricUpdate const& update) const {
    bool const is_ranked = is_finite(score) || score > 0.0F;
    return is_ranked ? standing.discount(update) : 0.0;
  }
};

/// The words of a Tally that the examples of a batch add up to, for the kinds whose state is sums.
struct TallyWords {
  std::uint64_t at[Tally::words] = {};

  /// Counts an example, unless its weight is 0. Returns whether it counts, with numbers in their
  /// ranges.
  MSSTREAM_HOST_DEVICE bool count(MetricUpdate const& update,
                                  float score,
                                  float label,
                                  float weight) {
    if (weight == 0.0F) {
      return false;
    }
    bool const takes_any = is_mean(update.kind);
    bool const score_is_good = takes_any                  ? is_finite(score)
                               : update.are_probabilities ? score >= 0.0F && score <= 1.0F
                                                          : score == score;
    bool const label_is_good = takes_any ? is_finite(label) : label >= 0.0F && label <= 1.0F;
    bool const weight_is_good = update.kept_users != nullptr ? weight == 1.0F : is_weight(weight);
    at[Tally::examples] += 1;
    at[Tally::bad_scores] += score_is_good ? 0 : 1;
    at[Tally::bad_labels] += label_is_good ? 0 : 1;
    at[Tally::bad_weights] += weight_is_good ? 0 : 1;
    return score_is_good && label_is_good && weight_is_good;
  }
  MSSTREAM_HOST_DEVICE void add(Tally::Word sum, double value) {
    FixedSum digits;
    digits.add(value);
    for (int d = 0; d < 3; ++d) {
      at[sum + d] += digits.digits[d];
    }
  }
  /// Adds a number of magnitude below 2^64, cut to a multiple of 2^-64, to Tally::terms and
  /// Tally::high. Their digits have the sign of the number, in two's complement.
  MSSTREAM_HOST_DEVICE void add_signed(double value) {
    double const magnitude = std::fabs(value);
    double const high = std::floor(times(magnitude, 0x1p-32));
    FixedSum low;
    low.add(magnitude - times(high, 0x1p32));  // exact
    auto const add_digit = [&](int word, std::uint64_t digit) {
      at[word] += value < 0.0 ? 0 - digit : digit;
    };
    for (int d = 0; d < 3; ++d) {
      add_digit(Tally::terms + d, low.digits[d]);
    }
    add_digit(Tally::high, static_cast<std::uint64_t>(high));
  }
  /// Adds the term of an example of a mean of any numbers. Counts it as bad if it is too large.
  MSSTREAM_HOST_DEVICE void add_any(MetricKind kind, float score, float label, float weight) {
    double const error = static_cast<double>(score) - label;
    double const term = kind == MetricKind::squared_error    ? times(error, error)
                        : kind == MetricKind::absolute_error ? std::fabs(error)
                                                             : static_cast<double>(score);
    double const weighted = times(weight, term);
    if (std::fabs(weighted) < kMostTerm) {
      add_signed(weighted);
      add(Tally::weights, weight);
    } else {
      at[Tally::bad_scores] += 1;
    }
  }
  /// Adds row `i` of the batch.
  MSSTREAM_HOST_DEVICE void add_row(MetricUpdate const& update, std::int64_t i) {
    float const score = update.scores[i];
    float const label = update.labels != nullptr ? update.labels[i] : 0.0F;
    float const weight = weight_of(update, i);
    if (!count(update, score, label, weight)) {
      return;
    }
    if (is_mean(update.kind)) {
      add_any(update.kind, score, label, weight);
      return;
    }
    double term = 0.0;
    if (update.kind == MetricKind::loss) {
      term = update.are_probabilities ? loss_of_probability(score, label, update.bound)
                                      : loss_of_logit(score, label, update.bound);
    } else if (update.kind == MetricKind::calibration) {
      term = update.are_probabilities ? score : probability_of(score);
    } else {
      term = (score > update.threshold) == (label > 0.5F) ? 1.0 : 0.0;
    }
    add(Tally::terms, times(weight, term));
    add(Tally::weights, weight);
    add(Tally::positives, times(weight, label));
  }
  /// Adds a row of scores whose target has met all of them.
  MSSTREAM_HOST_DEVICE void add_target(MetricUpdate const& update, Target const& target) {
    bool const weight_is_good = is_weight(target.weight);
    at[Tally::examples] += 1;
    at[Tally::bad_scores] += target.nans == 0 ? 0 : 1;
    at[Tally::bad_labels] += target.exists ? 0 : 1;
    at[Tally::bad_weights] += weight_is_good ? 0 : 1;
    if (target.nans == 0 && target.exists && weight_is_good) {
      add(Tally::terms, times(target.weight, target.merit(update)));
      add(Tally::weights, target.weight);
    }
  }
};

/// Returns the sum of Tally::terms and Tally::high, for MetricKind::mean and its like.
inline double signed_value_of(std::uint64_t const* at) {
  auto const digit = [at](int word, double unit) {
    return static_cast<double>(static_cast<std::int64_t>(at[word])) * unit;
  };
  return digit(Tally::high, 0x1p32) +
         (digit(Tally::terms + 2, 1.0) +
          (digit(Tally::terms + 1, 0x1p-32) + digit(Tally::terms, 0x1p-64)));
}

/// Returns whether offset `i` of lists is outside the batch or descends, or lists leave out items:
/// the first must be 0, and the last not below the number of items that exist.
MSSTREAM_HOST_DEVICE inline bool is_bad_offset(MetricUpdate const& update,
                                               std::int64_t i,
                                               std::int64_t existing) {
  auto const offset = update.offsets.at(i);
  auto const least = i == update.lists ? existing : 0;
  auto const previous = i > 0 ? update.offsets.at(i - 1) : 0;
  return offset < least || offset < previous || offset > (i > 0 ? update.rows : 0);
}

MSSTREAM_HOST_DEVICE inline bool is_grade(float grade) {
  return grade >= 0.0F && grade <= kMostGrade;
}
MSSTREAM_HOST_DEVICE inline double gain_of(MetricUpdate const& update, float grade) {
  return update.exponential ? exponential_gain(grade) : grade;
}

}  // namespace msstream::ops::kernels
