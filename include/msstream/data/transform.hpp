// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace msstream::data {

/// A step that turns raw values of a column into those that a model gets. A column has a list of
/// them, which are applied in their order:
///
///     {.name = "income", .transforms = {Transform::clip(0, 1e6), Transform::log1p(),
///                                       Transform::normalize()}}
///     {.name = "country", .type = hashed, .transforms = {Transform::vocabulary({.min_count =
///     10})}}
///
/// The steps of a list come in this order, and each kind of them may be left out:
/// - first() or last() shortens the rows of a jagged column, of any type.
/// - fill_missing(), clip(), log1p() and normalize() compute with numbers, float32 or int64, which
///   become float32. They are computed in double precision and rounded once, so that Unix times
///   keep their differences. The numbers of text and Parquet files are not rounded before them.
/// - One step makes ids, which are int64: hash() or vocabulary() of integers and strings, with no
///   step of numbers in front of it; bucketize(), quantiles(), hour_of_day() or day_of_week() of
///   numbers.
///
/// normalize(), vocabulary() and quantiles() are fitted to data: see Transforms.
///
/// A number that is missing is NaN. Steps pass it on, except fill_missing(); what is still missing
/// at the end is an error.
struct Transform {
  /// The step; the function of the same name makes it.
  enum class Kind : std::uint8_t {
    hash,
    vocabulary,
    fill_missing,
    clip,
    log1p,
    normalize,
    bucketize,
    quantiles,
    hour_of_day,
    day_of_week,
    first,
    last
  };

  /// The ids are [0, buckets): those of ops::hash_to_bucket(key, buckets, salt).
  struct Hash {
    std::int64_t buckets = 0;  ///< at least 1
    std::uint64_t salt = 0;    ///< other salts give other ids
  };
  /// The ids are [0, oov_buckets) for out-of-vocabulary values, by their hash, and then one for
  /// each value that the data has often enough, the most frequent first. A text that is missing is
  /// a value like others, the empty text.
  struct Vocabulary {
    std::int64_t min_count = 1;    ///< times that a value must occur in the data, at least 1
    std::int64_t max_values = 0;   ///< the most values, the most frequent ones; 0: unlimited
    std::int64_t oov_buckets = 1;  ///< at least 1
    /// The name of a vocabulary that several columns of one type share, such as those of an item
    /// and of the items seen before: it is fitted to the values of all of them, and equal values
    /// have equal ids. The columns state equal options. Empty: the column has its own.
    std::string name = {};
  };
  /// The numbers are times since 1970-01-01 in UTC.
  struct UnixTime {
    std::int64_t per_second = 1;    ///< units of time in a second, at least 1: 1000 if milliseconds
    std::int64_t utc_offset_s = 0;  ///< seconds by which the local time is ahead of UTC
    friend bool operator==(UnixTime const&, UnixTime const&) = default;
  };

  /// Makes ids of integers and strings by their hash.
  [[nodiscard]] static Transform hash(Hash const& options) {
    return {.kind = Kind::hash, .buckets = options.buckets, .salt = options.salt};
  }
  /// Makes ids of integers and strings by a list of those that the data has. Values of equal
  /// frequency are in the order of their keys.
  [[nodiscard]] static Transform vocabulary(Vocabulary const& options) {
    return {.kind = Kind::vocabulary,
            .buckets = options.oov_buckets,
            .min_count = options.min_count,
            .max_values = options.max_values,
            .name = options.name};
  }
  [[nodiscard]] static Transform vocabulary() { return vocabulary(Vocabulary()); }
  /// Replaces numbers that are missing, in a float32 column.
  [[nodiscard]] static Transform fill_missing(double value) {
    return {.kind = Kind::fill_missing, .low = value};
  }
  /// Limits numbers to [low, high].
  [[nodiscard]] static Transform clip(double low, double high) {
    return {.kind = Kind::clip, .low = low, .high = high};
  }
  /// Replaces x by log(1 + x). A number of -1 or less is an error: clip() it first.
  [[nodiscard]] static Transform log1p() { return {.kind = Kind::log1p}; }
  /// Subtracts the mean of the data and divides by its standard deviation, if that is not 0: those
  /// of each of the column's values in a row, or of all values of a jagged column.
  [[nodiscard]] static Transform normalize() { return {.kind = Kind::normalize}; }
  /// Replaces a number by how many of the boundaries, which ascend, are at most it: the ids are
  /// those of torch.bucketize(x, boundaries, right=True), from 0 to the number of boundaries.
  [[nodiscard]] static Transform bucketize(std::vector<double> boundaries) {
    return {.kind = Kind::bucketize, .boundaries = std::move(boundaries)};
  }
  /// Replaces a number by its bucket among those that have equally many of the column's numbers in
  /// the data: bucketize() with `buckets` - 1 quantiles. Quantiles that are equal count once.
  [[nodiscard]] static Transform quantiles(std::int64_t buckets) {
    return {.kind = Kind::quantiles, .buckets = buckets};
  }
  /// Replaces a time by its hour, 0 to 23.
  [[nodiscard]] static Transform hour_of_day(UnixTime const& unit) {
    return of_time(Kind::hour_of_day, unit);
  }
  [[nodiscard]] static Transform hour_of_day() { return hour_of_day(UnixTime()); }
  /// Replaces a time by its day of the week, 0 (Monday) to 6.
  [[nodiscard]] static Transform day_of_week(UnixTime const& unit) {
    return of_time(Kind::day_of_week, unit);
  }
  [[nodiscard]] static Transform day_of_week() { return day_of_week(UnixTime()); }
  /// Keeps the first `values` values of each row of a jagged column.
  [[nodiscard]] static Transform first(std::int64_t values) {
    return {.kind = Kind::first, .max_values = values};
  }
  /// Keeps the last `values` values of each row of a jagged column.
  [[nodiscard]] static Transform last(std::int64_t values) {
    return {.kind = Kind::last, .max_values = values};
  }

  Kind kind = Kind::hash;               ///< the step, which says which other members it uses
  std::int64_t buckets = 0;             ///< of hash() and quantiles(), and out of the vocabulary
  std::uint64_t salt = 0;               ///< of hash()
  std::int64_t min_count = 0;           ///< of a vocabulary: Vocabulary::min_count
  std::int64_t max_values = 0;          ///< of a vocabulary, and of a row with first() and last()
  double low = 0;                       ///< of clip(), and the value of fill_missing()
  double high = 0;                      ///< of clip()
  std::string name = {};                ///< of a vocabulary that columns share
  std::vector<double> boundaries = {};  ///< of bucketize(), ascending
  UnixTime unit = {};                   ///< of hour_of_day() and day_of_week()

  /// Returns whether the step makes ids, and not numbers.
  [[nodiscard]] bool makes_ids() const noexcept {
    return takes_keys() || (kind >= Kind::bucketize && kind <= Kind::day_of_week);
  }
  /// Returns whether the step is for integers and strings as they are.
  [[nodiscard]] bool takes_keys() const noexcept {
    return kind == Kind::hash || kind == Kind::vocabulary;
  }
  /// Returns whether the step shortens rows, and leaves values as they are.
  [[nodiscard]] bool shortens() const noexcept { return kind == Kind::first || kind == Kind::last; }
  friend bool operator==(Transform const&, Transform const&) = default;

 private:
  static Transform of_time(Kind kind, UnixTime const& unit) { return {.kind = kind, .unit = unit}; }
};

/// Returns whether the steps replace numbers that are missing, so that readers give NaN for them.
[[nodiscard]] bool fills_missing(std::vector<Transform> const& transforms);

/// Returns the step as text, as in `clip(0, 100)`.
[[nodiscard]] std::string to_string(Transform const& transform);

}  // namespace msstream::data
