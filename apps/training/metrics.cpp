// SPDX-License-Identifier: Apache-2.0
#include "training/metrics.hpp"

#include <msstream/base/detail/require.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace msstream::training {

namespace {

void require_pairs(char const* metric, std::size_t scores, std::size_t labels) {
  require(scores == labels, "{}: {} scores, but {} labels", metric, scores, labels);
}

void require_some(char const* metric, std::size_t count) {
  require(count > 0, "{}: there are no values", metric);
}

/// Returns the discounted gain of items in descending order of score, given as (score, gain).
double discounted_gain(std::span<std::pair<float, double> const> ranked, std::size_t places) {
  double sum = 0;
  for (std::size_t begin = 0; begin < std::min(ranked.size(), places);) {
    double gain = 0;
    double discount = 0;
    std::size_t end = begin;
    for (; end < ranked.size() && ranked[end].first == ranked[begin].first; ++end) {
      gain += ranked[end].second;
      discount += end < places ? 1 / std::log2(static_cast<double>(end + 2)) : 0;
    }
    sum += gain / static_cast<double>(end - begin) * discount;
    begin = end;
  }
  return sum;
}

}  // namespace

std::optional<double> roc_auc(std::span<float const> scores, std::span<float const> labels) {
  require_pairs("AUC", scores.size(), labels.size());
  std::vector<std::pair<float, bool>> ranked;
  ranked.reserve(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    require(!std::isnan(scores[i]), "AUC: score {} is not a number", i);
    ranked.emplace_back(scores[i], labels[i] > 0.5F);
  }
  std::ranges::sort(ranked, {}, &std::pair<float, bool>::first);

  // Counts twice the pairs won, so that ties stay whole numbers and nothing is rounded before the
  // end.
  std::uint64_t twice_won = 0;
  std::uint64_t positives = 0;
  std::uint64_t negatives = 0;
  for (std::size_t begin = 0; begin < ranked.size();) {
    std::uint64_t tied_positives = 0;
    std::size_t end = begin;
    for (; end < ranked.size() && ranked[end].first == ranked[begin].first; ++end) {
      tied_positives += ranked[end].second ? 1 : 0;
    }
    std::uint64_t const tied_negatives = end - begin - tied_positives;
    twice_won += tied_positives * (2 * negatives + tied_negatives);
    positives += tied_positives;
    negatives += tied_negatives;
    begin = end;
  }
  if (positives == 0 || negatives == 0) {
    return std::nullopt;
  }
  return static_cast<double>(twice_won) /
         (2.0 * static_cast<double>(positives) * static_cast<double>(negatives));
}

double log_loss(std::span<float const> logits, std::span<float const> labels) {
  require_pairs("log loss", logits.size(), labels.size());
  require_some("log loss", logits.size());
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    auto const logit = static_cast<double>(logits[i]);
    auto const label = static_cast<double>(labels[i]);
    sum += std::max(logit, 0.0) - logit * label + std::log1p(std::exp(-std::abs(logit)));
  }
  return sum / static_cast<double>(logits.size());
}

double accuracy(std::span<float const> scores, std::span<float const> labels, float threshold) {
  require_pairs("accuracy", scores.size(), labels.size());
  require_some("accuracy", scores.size());
  std::size_t right = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    right += (scores[i] > threshold) == (labels[i] > 0.5F) ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(scores.size());
}

std::optional<double> ndcg(std::span<float const> scores,
                           std::span<float const> grades,
                           std::size_t places) {
  require_pairs("NDCG", scores.size(), grades.size());
  require(places > 0, "NDCG: expected at least 1 place");
  std::vector<std::pair<float, double>> ranked;
  std::vector<std::pair<float, double>> best;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    require(!std::isnan(scores[i]), "NDCG: score {} is not a number", i);
    require(grades[i] >= 0, "NDCG: expected grades of 0 or more, found {}", grades[i]);
    double const gain = std::exp2(static_cast<double>(grades[i])) - 1;
    ranked.emplace_back(scores[i], gain);
    best.emplace_back(grades[i], gain);
  }
  std::ranges::stable_sort(ranked, std::greater<>(), &std::pair<float, double>::first);
  std::ranges::stable_sort(best, std::greater<>(), &std::pair<float, double>::first);
  double const most = discounted_gain(best, places);
  return most > 0 ? std::optional(discounted_gain(ranked, places) / most) : std::nullopt;
}

double percentile(std::span<double const> values, double percent) {
  require_some("percentile", values.size());
  require(percent >= 0 && percent <= 100, "percentile: expected 0 to 100, found {}", percent);
  std::vector<double> sorted(values.begin(), values.end());
  double const position = percent / 100.0 * static_cast<double>(sorted.size() - 1);
  auto const below = static_cast<std::size_t>(position);
  auto const lower = sorted.begin() + static_cast<std::ptrdiff_t>(below);
  std::ranges::nth_element(sorted, lower);
  double const fraction = position - static_cast<double>(below);
  if (fraction == 0) {
    return *lower;
  }
  return *lower + fraction * (*std::min_element(lower + 1, sorted.end()) - *lower);
}

}  // namespace msstream::training
