// SPDX-License-Identifier: Apache-2.0
#include "metrics/bucket_map.hpp"
#include "metrics/metric_math.hpp"
#include "metrics/metric_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/metrics/auc.hpp>
#include <msstream/tensor/detail/any_copy.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

namespace msstream::metrics {
namespace detail {
namespace {

/// The int64 elements that have kMostKnots knots of 32 bits.
constexpr std::int64_t kKnotElements = (kernels::kMostKnots + 1) / 2;

/// Returns the keys of a sample of scores in ascending order; of more than `most`, that many
/// quantiles.
[[nodiscard]] std::vector<std::uint32_t> keys_of(BucketedAuc<AnyRuntime>::Options const& options) {
  std::vector<std::uint32_t> keys;
  for (auto const score : options.sample) {
    bool const is_good =
        options.input == Input::probabilities ? score >= 0.0F && score <= 1.0F : score == score;
    require(is_good,
            "{}: a score of {} in Options::sample; expected {}",
            options.name,
            score,
            options.input == Input::probabilities ? "probabilities in [0, 1]" : "numbers");
    keys.push_back(kernels::ordered_bits(score));
  }
  std::ranges::sort(keys);
  auto const most = static_cast<std::size_t>(kernels::most_knots(options.buckets));
  if (keys.size() > most) {
    std::vector<std::uint32_t> quantiles;
    for (std::size_t i = 0; i < most; ++i) {
      quantiles.push_back(keys[(2 * i + 1) * keys.size() / (2 * most)]);
    }
    keys = std::move(quantiles);
  }
  return keys;
}

/// Returns a hash of numbers (FNV-1a), by which messages tell samples apart.
[[nodiscard]] std::uint32_t hash_of(std::vector<std::uint32_t> const& keys) {
  std::uint32_t hash = 2166136261U;
  for (auto const key : keys) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ ((key >> shift) & 0xFFU)) * 16777619U;
    }
  }
  return hash;
}

/// The state of BucketedAuc: [2 classes, buckets] counts, or FixedSums of weights, and the knots of
/// the first batch.
class BucketsState final : public MetricState {
 public:
  BucketsState(AnyDevice const& device,
               BucketedAuc<AnyRuntime>::Options const& options,
               std::source_location issued_at)
      : MetricState(device.state(),
                    checked(options),
                    2 * options.buckets * (options.weighted ? 3 : 1) + kKnotElements,
                    issued_at),
        input_(options.input),
        buckets_(options.buckets),
        weighted_(options.weighted),
        centre_(options.centre),
        given_(keys_of(options)) {
    if (given_.empty()) {
      return;
    }
    auto const map = kernels::map_of_sample(
        buckets_, are_probabilities(), given_.data(), static_cast<int>(given_.size()));
    centre_ = centre_.value_or(map.centre);
    given_.resize(static_cast<std::size_t>(map.knot_count));
    std::vector<std::int64_t> elements(kKnotElements, 0);
    std::memcpy(elements.data(), given_.data(), given_.size() * sizeof(std::uint32_t));
    knots_.emplace(msstream::detail::upload(device.state(),
                                            DType::int64,
                                            elements.data(),
                                            elements.size(),
                                            Shape{kKnotElements},
                                            issued_at));
  }

  void add_reads(AnyBatch const&, Reads& read) const override {
    if (knots_) {
      read.add(*knots_);
    }
  }
  [[nodiscard]] std::optional<double> value(std::source_location issued_at) const override {
    auto const words = read(issued_at, {}).words;
    double positive = 0.0;
    double negative = 0.0;
    double won = 0.0;
    for (std::int64_t bucket = 0; bucket < buckets_; ++bucket) {
      double const own_positive = weight_of(words, 1, bucket);
      double const own_negative = weight_of(words, 0, bucket);
      won += own_positive * (negative + 0.5 * own_negative);
      positive += own_positive;
      negative += own_negative;
    }
    return positive > 0.0 && negative > 0.0 ? std::optional(won / (positive * negative))
                                            : std::nullopt;
  }
  /// Implements BucketedAuc::error_bound().
  [[nodiscard]] std::optional<double> error_bound(std::source_location issued_at) const {
    auto const found = read(issued_at, {});
    auto const keys = keys_in(found);
    auto const map = map_in(found, keys);
    double positive = 0.0;
    double negative = 0.0;
    double tied = 0.0;
    int interval = 0;
    for (std::int64_t bucket = 0; bucket < buckets_; ++bucket) {
      double const own_positive = weight_of(found.words, 1, bucket);
      double const own_negative = weight_of(found.words, 0, bucket);
      positive += own_positive;
      negative += own_negative;
      if (own_positive > 0.0 && own_negative > 0.0 && !is_exact(map, bucket, interval)) {
        tied += own_positive * own_negative;
      }
    }
    return positive > 0.0 && negative > 0.0 ? std::optional(0.5 * tied / (positive * negative))
                                            : std::nullopt;
  }
  /// Implements BucketedAuc::sample().
  [[nodiscard]] std::vector<float> sample(std::source_location issued_at) const {
    std::vector<float> scores;
    for (auto const key : keys_in(read(issued_at, {}))) {
      scores.push_back(kernels::number_of_key(key));
    }
    return scores;
  }
  [[nodiscard]] std::string kind() const override {
    auto const of_sample = given_.empty() ? std::string()
                                          : fmt::format(" and a sample of {} scores with hash {:x}",
                                                        given_.size(),
                                                        hash_of(given_));
    return fmt::format("{}examples in {} buckets of {} around {}{}",
                       weighted_ ? "weighted " : "",
                       buckets_,
                       are_probabilities() ? "probabilities" : "logits",
                       centre_ ? fmt::format("{}", *centre_) : "the first ones",
                       of_sample);
  }

 private:
  [[nodiscard]] static std::string checked(BucketedAuc<AnyRuntime>::Options const& options) {
    require(options.buckets >= 1 << 8U && options.buckets <= 1 << 24U &&
                std::has_single_bit(static_cast<std::uint64_t>(options.buckets)),
            "{}: {} buckets; expected a power of two from 2^8 to 2^24",
            options.name,
            options.buckets);
    require(std::isfinite(options.centre.value_or(0.0)),
            "{}: a centre of {}; expected a finite logit",
            options.name,
            options.centre.value_or(0.0));
    return options.name;
  }
  [[nodiscard]] bool are_probabilities() const noexcept { return input_ == Input::probabilities; }
  [[nodiscard]] std::int64_t sums() const noexcept { return 2 * buckets_ * (weighted_ ? 3 : 1); }
  [[nodiscard]] double weight_of(std::vector<std::uint64_t> const& words,
                                 std::int64_t side,
                                 std::int64_t bucket) const {
    auto const index = static_cast<std::size_t>(side * buckets_ + bucket);
    return weighted_ ? kernels::value_of(words.data() + 3 * index)
                     : static_cast<double>(words[index]);
  }
  /// Returns the keys of the knots of a state that was read.
  [[nodiscard]] std::vector<std::uint32_t> keys_in(Read const& found) const {
    if (centre_) {
      return given_;
    }
    std::vector<std::uint32_t> keys(static_cast<std::size_t>(kernels::kMostKnots));
    std::memcpy(keys.data(), found.words.data() + sums(), keys.size() * sizeof(std::uint32_t));
    keys.resize(static_cast<std::size_t>(found.tally.at[kernels::Tally::knots]));
    return keys;
  }
  [[nodiscard]] kernels::BucketMap map_in(Read const& found,
                                          std::vector<std::uint32_t> const& keys) const {
    auto const own = std::bit_cast<double>(found.tally.at[kernels::Tally::centre]);
    kernels::BucketMap map{buckets_,
                           are_probabilities(),
                           !centre_ || knots_,
                           centre_.value_or(own),
                           keys.data(),
                           static_cast<int>(keys.size()),
                           0};
    map.divide();
    return map;
  }
  /// Returns whether all scores of a bucket are equal. Buckets come in ascending order; `interval`
  /// is where the one before was found.
  [[nodiscard]] static bool is_exact(kernels::BucketMap const& map,
                                     std::int64_t bucket,
                                     int& interval) {
    while (interval < map.knot_count &&
           map.bucket_of(kernels::number_of_key(map.first_of(interval + 1))) <= bucket) {
      ++interval;
    }
    return map.has_knots && map.is_exact(interval);
  }
  void complete(kernels::MetricUpdate& update, AnyBatch const& batch) const override {
    require_weights(weighted_, batch);
    update.kind = kernels::MetricKind::buckets;
    update.are_probabilities = are_probabilities();
    update.capacity = buckets_;
    update.has_centre = centre_.has_value();
    update.bound = centre_.value_or(0.0);
    update.buckets = words();
    if (!centre_) {
      update.knots = reinterpret_cast<std::uint32_t*>(words() + sums());
    } else if (knots_) {
      update.knots = static_cast<std::uint32_t*>(knots_->data());
    }
    update.knot_count = static_cast<int>(given_.size());
  }
  [[nodiscard]] Sum sum() const override {
    require(centre_.has_value(),
            "{}: its buckets follow its first examples, so it cannot be merged; expected "
            "BucketedAuc::Options::sample or BucketedAuc::Options::centre",
            name());
    return {kind(), kernels::Tally::terms, sums()};
  }

  Input input_;
  std::int64_t buckets_;
  bool weighted_;
  std::optional<double> centre_;                      ///< null: that of the first batch
  std::vector<std::uint32_t> given_;                  ///< the knots of Options::sample
  std::optional<msstream::detail::AnyTensor> knots_;  ///< on the device, if they are given
};

[[nodiscard]] BucketsState const& buckets_of(AnyMetric const& metric) {
  return static_cast<BucketsState const&>(metric.state());
}

}  // namespace
}  // namespace detail

using msstream::detail::AnyRuntime;

detail::AnyMetric BucketedAuc<AnyRuntime>::make(detail::AnyDevice const& device,
                                                Options const& options,
                                                std::source_location issued_at) {
  return detail::AnyMetric(std::make_shared<detail::BucketsState>(device, options, issued_at));
}

std::optional<double> BucketedAuc<AnyRuntime>::error_bound(detail::AnyMetric const& metric,
                                                           std::source_location issued_at) {
  return detail::buckets_of(metric).error_bound(issued_at);
}

std::vector<float> BucketedAuc<AnyRuntime>::sample(detail::AnyMetric const& metric,
                                                   std::source_location issued_at) {
  return detail::buckets_of(metric).sample(issued_at);
}

}  // namespace msstream::metrics
