// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/ops_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

/// The metrics by their definitions, in float64 and long double.
namespace msstream::metrics::testing {

using msstream::testing::Doubles;
using msstream::testing::Floats;
using msstream::testing::Integers;

/// Examples on the host. Empty weights stand for weights of 1.
struct Examples {
  Floats scores;
  Floats labels;
  Floats weights = {};

  [[nodiscard]] std::size_t count() const { return scores.size(); }
  [[nodiscard]] long double weight(std::size_t i) const {
    return weights.empty() ? 1.0L : static_cast<long double>(weights[i]);
  }
};

/// Computes the area under the ROC curve over all pairs of a positive and a negative example.
inline std::optional<double> auc_by_pairs(Examples const& examples) {
  long double won = 0;
  long double pairs = 0;
  for (std::size_t i = 0; i < examples.count(); ++i) {
    for (std::size_t j = 0; j < examples.count(); ++j) {
      if (examples.labels[i] > 0.5F && examples.labels[j] <= 0.5F) {
        auto const weight = examples.weight(i) * examples.weight(j);
        pairs += weight;
        won += weight * (examples.scores[i] > examples.scores[j]    ? 1.0L
                         : examples.scores[i] == examples.scores[j] ? 0.5L
                                                                    : 0.0L);
      }
    }
  }
  return pairs > 0 ? std::optional(static_cast<double>(won / pairs)) : std::nullopt;
}

/// Computes the area under the ROC curve by ranks, for more examples than all pairs allow.
inline std::optional<double> auc_by_ranks(Examples const& examples) {
  std::vector<std::pair<float, std::size_t>> ranked;
  for (std::size_t i = 0; i < examples.count(); ++i) {
    ranked.emplace_back(examples.scores[i], i);
  }
  std::sort(ranked.begin(), ranked.end());
  long double won = 0;
  long double positives = 0;
  long double negatives = 0;
  for (std::size_t begin = 0; begin < ranked.size();) {
    long double own_positives = 0;
    long double own_negatives = 0;
    auto end = begin;
    for (; end < ranked.size() && ranked[end].first == ranked[begin].first; ++end) {
      auto const i = ranked[end].second;
      (examples.labels[i] > 0.5F ? own_positives : own_negatives) += examples.weight(i);
    }
    won += own_positives * (negatives + own_negatives / 2);
    positives += own_positives;
    negatives += own_negatives;
    begin = end;
  }
  return positives > 0 && negatives > 0
             ? std::optional(static_cast<double>(won / (positives * negatives)))
             : std::nullopt;
}

inline double probability(float logit) {
  return 1.0 / (1.0 + std::exp(-static_cast<double>(logit)));
}

/// Computes the negative log likelihood of a label, with the probabilities of both outcomes limited
/// to [least, 1 - least].
inline double loss(double p, double label, double least) {
  auto const log_of = [least](double q) { return std::log(std::clamp(q, least, 1.0 - least)); };
  return -(label * log_of(p) + (1.0 - label) * log_of(1.0 - p));
}

/// Returns the weighted mean of term(i).
template <class Term>
double weighted_mean(Examples const& examples, Term const& term) {
  long double sum = 0;
  long double weights = 0;
  for (std::size_t i = 0; i < examples.count(); ++i) {
    sum += examples.weight(i) * static_cast<long double>(term(i));
    weights += examples.weight(i);
  }
  return static_cast<double>(sum / weights);
}

inline double mean_label(Examples const& examples) {
  return weighted_mean(examples, [&](std::size_t i) { return examples.labels[i]; });
}

/// Computes the mean area of users, weighted by their numbers of examples.
inline std::optional<double> grouped_auc(Examples const& examples, Integers const& users) {
  std::map<std::int64_t, Examples> of_users;
  for (std::size_t i = 0; i < examples.count(); ++i) {
    auto& own = of_users[users[i]];
    own.scores.push_back(examples.scores[i]);
    own.labels.push_back(examples.labels[i]);
  }
  double sum = 0;
  double impressions = 0;
  for (auto const& [user, own] : of_users) {
    if (auto const area = auc_by_ranks(own)) {
      sum += static_cast<double>(own.count()) * *area;
      impressions += static_cast<double>(own.count());
    }
  }
  return impressions > 0 ? std::optional(sum / impressions) : std::nullopt;
}

/// Computes the discounted gain of items given as (score, gain): each item has the mean discount of
/// the ranks of its ties.
inline double discounted_gain(std::vector<std::pair<double, double>> items, std::int64_t places) {
  std::ranges::sort(items, std::greater<>());
  double sum = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    double discount = 0;
    double ties = 0;
    for (std::size_t rank = 0; rank < items.size(); ++rank) {
      if (items[rank].first == items[i].first) {
        ++ties;
        discount += static_cast<std::int64_t>(rank) < places
                        ? 1.0 / std::log2(static_cast<double>(rank) + 2.0)
                        : 0.0;
      }
    }
    sum += items[i].second * discount / ties;
  }
  return sum;
}

/// Computes the mean NDCG of the lists with an item above 0.
inline std::optional<double> mean_ndcg(Floats const& scores,
                                       Floats const& grades,
                                       Integers const& offsets,
                                       std::int64_t places,
                                       bool exponential) {
  double sum = 0;
  double lists = 0;
  for (std::size_t list = 0; list + 1 < offsets.size(); ++list) {
    std::vector<std::pair<double, double>> by_score;
    std::vector<std::pair<double, double>> by_grade;
    for (auto i = static_cast<std::size_t>(offsets[list]);
         i < static_cast<std::size_t>(offsets[list + 1]);
         ++i) {
      double const gain = exponential ? std::exp2(static_cast<double>(grades[i])) - 1.0 : grades[i];
      by_score.emplace_back(scores[i], gain);
      by_grade.emplace_back(grades[i], gain);
    }
    double const most = discounted_gain(by_grade, places);
    if (most > 0) {
      sum += discounted_gain(by_score, places) / most;
      ++lists;
    }
  }
  return lists > 0 ? std::optional(sum / lists) : std::nullopt;
}

}  // namespace msstream::metrics::testing
