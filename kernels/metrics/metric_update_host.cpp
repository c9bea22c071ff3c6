// SPDX-License-Identifier: Apache-2.0
#include "common/existing_places.hpp"
#include "metrics/bucket_map.hpp"
#include "metrics/metric_math.hpp"
#include "metrics/metric_update.hpp"
#include "metrics/relevance_math.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace msstream::ops::kernels {
namespace {

void add_to(Tally& tally, TallyWords const& words) {
  for (int w = 0; w < Tally::words; ++w) {
    tally.at[w] += words.at[w];
  }
}

void add_sums(MetricUpdate const& update, std::int64_t existing) {
  TallyWords words;
  for (std::int64_t i = 0; i < existing; ++i) {
    words.add_row(update, i);
  }
  add_to(*update.tally, words);
}

void keep(MetricUpdate const& update, std::int64_t existing) {
  TallyWords words;
  auto max_weight = update.tally->max_weight;
  auto const begin = static_cast<std::int64_t>(update.tally->at[Tally::examples]);
  for (std::int64_t i = 0; i < existing; ++i) {
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
      max_weight = std::max<std::uint64_t>(max_weight, std::bit_cast<std::uint32_t>(weight));
    }
    if (update.kept_users != nullptr) {
      update.kept_users[place] = update.users.at(i);
    }
  }
  update.tally->max_weight = max_weight;
  words.at[Tally::examples] = static_cast<std::uint64_t>(existing);
  add_to(*update.tally, words);
}

/// Returns the buckets of a metric. Those of its first batch follow the first examples.
BucketMap known_map(MetricUpdate const& update, std::int64_t existing) {
  if (has_map(update)) {
    return map_of(update);
  }
  std::vector<std::uint32_t> keys;
  auto const most = static_cast<std::size_t>(most_knots(update.capacity));
  for (std::int64_t row = 0; row < existing && keys.size() < most; ++row) {
    if (is_sampled(update, row)) {
      keys.push_back(ordered_bits(update.scores[row]));
    }
  }
  std::ranges::sort(keys);
  auto map = map_of_sample(
      update.capacity, update.are_probabilities, keys.data(), static_cast<int>(keys.size()));
  std::copy_n(keys.data(), map.knot_count, update.knots);
  map.knots = update.knots;
  auto& at = update.tally->at;
  at[Tally::examples] = 1;
  at[Tally::centre] = std::bit_cast<std::uint64_t>(map.centre);
  at[Tally::knots] = static_cast<std::uint64_t>(map.knot_count);
  return map;
}

void add_to_buckets(MetricUpdate const& update, std::int64_t existing) {
  std::int64_t first = 0;
  while (first < existing && weight_of(update, first) == 0.0F) {
    ++first;
  }
  if (first == existing) {
    return;
  }
  auto const map = known_map(update, existing);
  update.tally->at[Tally::examples] = 1;
  TallyWords words;
  for (std::int64_t i = 0; i < existing; ++i) {
    float const label = update.labels[i];
    float const weight = weight_of(update, i);
    if (!words.count(update, update.scores[i], label, weight)) {
      continue;
    }
    auto const bucket = (label > 0.5F ? update.capacity : 0) + map.bucket_of(update.scores[i]);
    if (update.weights == nullptr) {
      ++update.buckets[bucket];
      continue;
    }
    FixedSum digits;
    digits.add(weight);
    for (int d = 0; d < 3; ++d) {
      update.buckets[3 * bucket + d] += digits.digits[d];
    }
  }
  words.at[Tally::examples] = 0;
  add_to(*update.tally, words);
}

/// Adds gain * discount of each item to a sum, for items in the order of a list that is sorted by
/// descending values.
FixedSum discounted_gains(MetricUpdate const& update,
                          std::span<std::pair<float, float> const> by_value) {
  FixedSum sum;
  for (std::size_t begin = 0; begin < by_value.size();) {
    auto end = begin;
    while (end < by_value.size() && by_value[end].first == by_value[begin].first) {
      ++end;
    }
    Standing const standing{static_cast<std::int64_t>(begin),
                            static_cast<std::int64_t>(end - begin)};
    for (; begin < end; ++begin) {
      sum.add(times(gain_of(update, by_value[begin].second), standing.discount(update)));
    }
  }
  return sum;
}

void add_gains(MetricUpdate const& update, std::int64_t existing) {
  TallyWords words;
  std::vector<std::pair<float, float>> by_score;
  std::vector<std::pair<float, float>> by_grade;
  for (std::int64_t i = 0; i <= update.lists; ++i) {
    words.at[Tally::bad_offsets] += is_bad_offset(update, i, existing) ? 1 : 0;
  }
  for (std::int64_t list = 0; list < update.lists; ++list) {
    auto const begin = clamped(update.offsets.at(list), existing);
    auto const end = clamped(update.offsets.at(list + 1), existing);
    by_score.clear();
    by_grade.clear();
    bool is_good = true;
    for (auto i = begin; i < end; ++i) {
      float const score = update.scores[i];
      float const grade = update.labels[i];
      float const weight = weight_of(update, i);
      if (weight == 0.0F) {
        continue;
      }
      words.at[Tally::bad_offsets] += weight == 1.0F ? 0 : 1;
      words.at[Tally::bad_scores] += score == score ? 0 : 1;
      words.at[Tally::bad_labels] += is_grade(grade) ? 0 : 1;
      is_good = is_good && score == score && is_grade(grade);
      by_score.emplace_back(score, grade);
      by_grade.emplace_back(grade, grade);
    }
    if (!is_good) {
      continue;
    }
    std::ranges::sort(by_score, std::greater<>(), &std::pair<float, float>::first);
    std::ranges::sort(by_grade, std::greater<>(), &std::pair<float, float>::first);
    double const most = value_of(discounted_gains(update, by_grade).digits);
    if (most > 0.0) {
      double const ratio = value_of(discounted_gains(update, by_score).digits) / most;
      words.add(Tally::terms, ratio < 1.0 ? ratio : 1.0);
      ++words.at[Tally::examples];
    }
  }
  add_to(*update.tally, words);
}

/// Adds the items of a list that count, given as (score, label), in any order.
void add_list(MetricUpdate const& update,
              std::vector<std::pair<float, float>>& items,
              TallyWords& words) {
  std::ranges::sort(items, std::greater<>(), &std::pair<float, float>::first);
  FixedSum merits;
  std::int64_t relevant = 0;
  for (std::size_t begin = 0; begin < items.size();) {
    ListPlace place{.above = static_cast<std::int64_t>(begin), .relevant_above = relevant};
    auto end = begin;
    for (; end < items.size() && items[end].first == items[begin].first; ++end) {
      place.relevant_equal += is_relevant(items[end].second) ? 1 : 0;
    }
    place.equal = static_cast<std::int64_t>(end - begin);
    for (; place.relevant_equal_before < place.relevant_equal; ++place.relevant_equal_before) {
      merits.add(merit_of_item(update, place));
    }
    relevant += place.relevant_equal;
    begin = end;
  }
  if (relevant > 0) {
    words.add(Tally::terms,
              merit_of_list(update, value_of(merits.digits), static_cast<double>(relevant)));
    words.add(Tally::weights, 1.0);
    ++words.at[Tally::examples];
  }
}

void add_relevance(MetricUpdate const& update, std::int64_t existing) {
  TallyWords words;
  std::vector<std::pair<float, float>> items;
  for (std::int64_t i = 0; i <= update.lists; ++i) {
    words.at[Tally::bad_offsets] += is_bad_offset(update, i, existing) ? 1 : 0;
  }
  for (std::int64_t list = 0; list < update.lists; ++list) {
    auto const begin = clamped(update.offsets.at(list), existing);
    auto const end = clamped(update.offsets.at(list + 1), existing);
    items.clear();
    bool is_good = true;
    for (auto i = begin; i < end; ++i) {
      float const score = update.scores[i];
      float const label = update.labels[i];
      float const weight = weight_of(update, i);
      if (weight == 0.0F) {
        continue;
      }
      words.at[Tally::bad_offsets] += weight == 1.0F ? 0 : 1;
      words.at[Tally::bad_scores] += score == score ? 0 : 1;
      words.at[Tally::bad_labels] += is_label(label) ? 0 : 1;
      is_good = is_good && score == score && is_label(label);
      items.emplace_back(score, label);
    }
    if (is_good) {
      add_list(update, items, words);
    }
  }
  add_to(*update.tally, words);
}

void add_targets(MetricUpdate const& update, std::int64_t existing) {
  TallyWords words;
  for (std::int64_t row = 0; row < existing; ++row) {
    Target target(update, row);
    if (target.weight != 0.0F) {
      for (std::int64_t column = 0; column < update.columns; ++column) {
        target.meet(update.scores[row * update.columns + column]);
      }
      words.add_target(update, target);
    }
  }
  add_to(*update.tally, words);
}

}  // namespace

void update_metrics(HostStream stream, MetricUpdates const& updates) {
  stream.run([updates] {
    for (int u = 0; u < updates.count; ++u) {
      auto const& update = updates.at[u];
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
  });
}

}  // namespace msstream::ops::kernels
