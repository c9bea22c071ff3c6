// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
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
/// A column of integers or strings with one step, hash() or vocabulary(), becomes ids. A column of
/// numbers, float32 or int64, with any number of the other steps becomes float32: they are computed
/// in double precision and rounded once, so that Unix times keep their differences. The numbers of
/// text and Parquet files are not rounded before them. normalize() and vocabulary() are fitted to
/// data: see Transforms.
///
/// A number that is missing is NaN. Steps pass it on, except fill_missing(); what is still missing
/// at the end is an error.
struct Transform {
  enum class Kind : std::uint8_t { hash, vocabulary, fill_missing, clip, log1p, normalize };

  /// The ids are [0, buckets): those of ops::hash_to_bucket(key, buckets, salt).
  struct Hash {
    std::int64_t buckets = 0;  ///< at least 1
    std::uint64_t salt = 0;
  };
  /// The ids are [0, oov_buckets) for out-of-vocabulary values, by their hash, and then one for
  /// each value that the data has often enough, the most frequent first. A text that is missing is
  /// a value like others, the empty text.
  struct Vocabulary {
    std::int64_t min_count = 1;    ///< times that a value must occur in the data, at least 1
    std::int64_t max_values = 0;   ///< the most values, the most frequent ones; 0: unlimited
    std::int64_t oov_buckets = 1;  ///< at least 1
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
            .max_values = options.max_values};
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

  Kind kind = Kind::hash;
  std::int64_t buckets = 0;  ///< of hash() and out of the vocabulary
  std::uint64_t salt = 0;
  std::int64_t min_count = 0;
  std::int64_t max_values = 0;
  double low = 0;  ///< of clip(), and the value of fill_missing()
  double high = 0;

  /// Returns whether the step makes ids, and not numbers.
  [[nodiscard]] bool makes_ids() const noexcept {
    return kind == Kind::hash || kind == Kind::vocabulary;
  }
  friend bool operator==(Transform const&, Transform const&) = default;
};

/// Returns whether the steps replace numbers that are missing, so that readers give NaN for them.
[[nodiscard]] bool fills_missing(std::vector<Transform> const& transforms);

/// Returns the step as text, as in `clip(0, 100)`.
[[nodiscard]] std::string to_string(Transform const& transform);

}  // namespace msstream::data
