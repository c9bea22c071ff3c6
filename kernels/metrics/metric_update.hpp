// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/id_array.hpp"

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// The kinds of metrics, by the terms that an update adds to the state.
enum class MetricKind : std::uint8_t {
  loss,            ///< terms: the negative log likelihood of each label
  calibration,     ///< terms: the predicted probabilities
  accuracy,        ///< terms: 1 for each example on the right side of the threshold
  mean,            ///< terms: the scores, any numbers
  squared_error,   ///< terms: the squared differences of scores and labels, any numbers
  absolute_error,  ///< terms: the magnitudes of these differences
  kept,            ///< keeps scores, labels, weights and users for a sort
  buckets,         ///< adds weights to the bucket of each score
  gain,            ///< terms: the normalised discounted gain of each list
  relevance,       ///< terms: the merit of each list with relevant items, by a ListTerm
  target,          ///< terms: the discount of the rank of each row's target
};
/// The term that a list with relevant items adds to a metric of MetricKind::relevance.
enum class ListTerm : std::uint8_t {
  recall,             ///< the share of the relevant items that are among the first ranks
  hit,                ///< 1 if a relevant item is among the first ranks
  reciprocal_rank,    ///< 1 / rank of the first relevant item, if it is among the first ranks
  average_precision,  ///< the mean, over relevant items, of the share of relevant ones up to each
};
/// Returns whether a metric is a mean whose terms may have any size and sign.
constexpr bool is_mean(MetricKind kind) {
  return kind == MetricKind::mean || kind == MetricKind::squared_error ||
         kind == MetricKind::absolute_error;
}

/// The part of a metric's state that every update changes, in device memory; all zeros at first.
/// Sums are exact integers, so that their bits depend neither on the order in which examples are
/// added nor on the runtime.
struct Tally {
  enum Word : int {
    /// Rows that count; for MetricKind::kept, rows that existed; for lists, those that count; for
    /// MetricKind::buckets, not 0 if there is a BucketMap.
    examples,
    bad_scores,                 ///< NaN, and probabilities outside [0, 1]; for means, not finite
    bad_labels,                 ///< outside [0, 1]; for MetricKind::gain, outside [0, kMostGrade]
    bad_weights,                ///< outside [0, kMostWeight]; with users, neither 0 nor 1
    bad_offsets = bad_weights,  ///< of lists, with weights that are neither 0 nor 1
    terms,                      ///< a FixedSum of weight * term
    centre = terms,     ///< for MetricKind::buckets: the bits of the logit of BucketMap::centre
    knots = terms + 1,  ///< for MetricKind::buckets: how many there are
    weights = terms + 3,
    positives = weights + 3,  ///< a FixedSum of weight * label
    high = positives,         ///< of means: the digit of terms in units of 2^32
    words = positives + 3,
  };

  std::uint64_t at[words];
  std::uint64_t max_weight;  ///< the bits of the largest float32 weight kept so far
  std::uint64_t finished;    ///< blocks that have finished the running update; 0 between updates
};

inline constexpr float kMostWeight = 0x1p26F;
inline constexpr float kMostGrade = 30.0F;
inline constexpr double kMostTerm = 0x1p64;  ///< of means, with the weight

/// One metric and the batch that an update adds to it. Members that a kind does not name are
/// unused.
struct MetricUpdate {
  MetricKind kind;
  bool are_probabilities;  ///< scores are probabilities, otherwise logits or any numbers
  bool exponential;        ///< gain: of a grade is 2^grade - 1, otherwise the grade
  ListTerm list_term;      ///< relevance
  bool has_centre;         ///< buckets: `bound` is the centre, and `knots` are given
  float threshold;         ///< accuracy
  double bound;  ///< loss: bound of |logit|, or the least and 1 - most probability; buckets: the
                 ///< centre
  std::int64_t rows;
  std::int64_t const* count;  ///< device scalar: how many rows exist; null if all do
  float const* scores;        ///< [rows]; target: [rows, columns]
  float const* labels;        ///< [rows]; mean, target: null
  float const* weights;       ///< [rows]; null if every weight is 1
  Tally* tally;

  std::int64_t capacity;      ///< kept: number of places; buckets: number of buckets
  float* kept_scores;         ///< kept: [capacity]
  std::uint8_t* kept_labels;  ///< kept: [capacity]
  float* kept_weights;        ///< kept: [capacity]; null without weights
  std::int64_t* kept_users;   ///< kept: [capacity]; null without users
  IdArray users;              ///< kept: [rows]
  std::uint64_t* buckets;     ///< [2 classes, capacity]; with weights [2, capacity, 3]
  /// buckets: of a BucketMap, [kMostKnots]; those of the first batch are written there. Null: none.
  std::uint32_t* knots;
  int knot_count;  ///< buckets: of the knots that are given

  IdArray offsets;          ///< gain, relevance: [lists + 1]
  std::int64_t lists;       ///< gain, relevance
  std::int64_t places;      ///< gain, relevance, target: the number of the first ranks that count
  double const* discounts;  ///< gain, target: [places + 1], sums of the discounts of first ranks
  IdArray targets;          ///< target: [rows], columns
  std::int64_t columns;     ///< target
};

inline constexpr int kMostUpdates = 16;

/// Adds a batch to each of several metrics, whose states must differ. One launch; in device memory
/// alone, so that a graph may replay it.
struct MetricUpdates {
  int count;
  MetricUpdate at[kMostUpdates];
};
static_assert(sizeof(MetricUpdates) <= 4000, "the parameters of a kernel");

void update_metrics(HostStream stream, MetricUpdates const& updates);
void update_metrics(CudaStream stream, MetricUpdates const& updates);

}  // namespace msstream::ops::kernels
