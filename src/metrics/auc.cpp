// SPDX-License-Identifier: Apache-2.0
#include "memory/device/device_state.hpp"
#include "memory/device/open_capture.hpp"
#include "metrics/metric_math.hpp"
#include "metrics/metric_state.hpp"
#include "metrics/ranked_area.hpp"
#include "ops/common/id_array.hpp"
#include "ops/common/workspace.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/metrics/auc.hpp>
#include <msstream/ops/ids.hpp>
#include <msstream/tensor/detail/any_copy.hpp>

#include <fmt/core.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::metrics {
namespace detail {
namespace {

__extension__ using Wide = unsigned __int128;

/// The state of the metrics that keep all examples: Auc, and GroupedAuc with users.
class KeptState : public MetricState {
 public:
  KeptState(AnyDevice const& device,
            std::string name,
            std::int64_t capacity,
            bool has_weights,
            bool has_users,
            std::source_location issued_at)
      : MetricState(device.state(), checked(std::move(name), capacity), 0, issued_at),
        capacity_(capacity),
        scores_(device.state(), Shape{capacity}),
        labels_(device.state(), Shape{capacity}) {
    if (has_weights) {
      weights_.emplace(device.state(), Shape{capacity});
    }
    if (has_users) {
      users_.emplace(device.state(), Shape{capacity});
    }
    // A checkpoint saves all places, also those without an example.
    std::vector<StateTensor> kept;
    add_tensors_of_examples(kept);
    for (auto const& of_examples : kept) {
      msstream::detail::fill_any(of_examples.tensor, 0, issued_at);
    }
  }

  void add_reads(AnyBatch const& batch, Reads& read) const override {
    if (users_) {
      read.add(batch.users->any());
    }
  }
  void add_writes(Writes& written) const override {
    MetricState::add_writes(written);
    written.add(scores_);
    written.add(labels_);
    if (weights_) {
      written.add(*weights_);
    }
    if (users_) {
      written.add(*users_);
    }
  }
  void require_room(std::int64_t rows) const override {
    if (auto const known = known_examples_.load(std::memory_order_relaxed); known >= 0) {
      require_capacity(known + rows);
    }
  }
  void note_examples(std::int64_t rows) const override {
    // A metric whose number of examples is unknown remains so.
    if (known_examples_.load(std::memory_order_relaxed) >= 0) {
      known_examples_.fetch_add(rows, std::memory_order_relaxed);
    }
  }
  void note_reset() const override {
    // Replays may reset the metric, without the host's knowledge, from now on.
    bool const captured = msstream::detail::OpenCapture::current(*device()->context) != nullptr;
    if (captured || known_examples_.load(std::memory_order_relaxed) != kResetByReplays) {
      known_examples_.store(captured ? kResetByReplays : 0, std::memory_order_relaxed);
    }
  }
  void note_load() const override {
    if (known_examples_.load(std::memory_order_relaxed) >= 0) {
      known_examples_.store(kLoaded, std::memory_order_relaxed);
    }
  }
  void add_tensors(std::vector<StateTensor>& to) const override {
    MetricState::add_tensors(to);
    add_tensors_of_examples(to);
  }
  [[nodiscard]] std::string kind() const override {
    return fmt::format("{} of {}examples that are kept",
                       users_ ? "the area of each user" : "the area",
                       weights_ ? "weighted " : "");
  }
  [[nodiscard]] std::optional<double> value(std::source_location issued_at) const override {
    Faults faults;
    if (users_) {
      faults.weights = "examples since the last reset() have weights that are neither 0 nor 1";
    }
    auto const tally = read(issued_at, faults).tally;
    auto const count = static_cast<std::int64_t>(tally.at[kernels::Tally::examples]);
    require_capacity(count);
    if (count == 0) {
      return std::nullopt;
    }
    return users_ ? area_of_users(count, issued_at)
                  : area(count, static_cast<std::uint32_t>(tally.max_weight), issued_at);
  }

 private:
  [[nodiscard]] static std::string checked(std::string name, std::int64_t capacity) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    require(capacity >= 1 && capacity <= kMost,
            "{}: a capacity of {}; expected 1 to {}",
            name,
            capacity,
            kMost);
    return name;
  }
  void add_tensors_of_examples(std::vector<StateTensor>& to) const {
    to.push_back({name_of("scores"), scores_.any()});
    to.push_back({name_of("labels"), labels_.any()});
    if (weights_) {
      to.push_back({name_of("weights"), weights_->any()});
    }
    if (users_) {
      to.push_back({name_of("users"), users_->any()});
    }
  }
  void require_capacity(std::int64_t count) const {
    if (count > capacity_) {
      throw std::length_error(fmt::format(
          "{}: {} examples since the last reset(), but a capacity of {}; make the metric with a "
          "larger Options::capacity, or use BucketedAuc",
          name(),
          count,
          capacity_));
    }
  }
  void complete(kernels::MetricUpdate& update, AnyBatch const& batch) const override {
    require_weights(weights_.has_value(), batch);
    require(!users_ || batch.users, "{}: a batch without users; expected Batch::users", name());
    update.kind = kernels::MetricKind::kept;
    update.capacity = capacity_;
    update.kept_scores = scores_.data();
    update.kept_labels = labels_.data();
    if (weights_) {
      update.kept_weights = weights_->data();
    }
    if (users_) {
      update.kept_users = users_->data();
      update.users = ops::detail::id_array(batch.users->any());
    }
  }

  [[nodiscard]] Sum sum() const override {
    throw std::invalid_argument(
        fmt::format("{}: keeps its examples, so it cannot be merged; update one metric with all of "
                    "them, or use "
                    "BucketedAuc",
                    name()));
  }

  /// Runs ranked_area() on the first `count` examples, and returns its result.
  [[nodiscard]] std::vector<std::uint64_t> ranked(
      std::int64_t count,
      int weight_bits,
      std::optional<ops::detail::AnyUniqueIds> const& users,
      std::source_location issued_at) const {
    TensorOf<std::int64_t> const result(device(), Shape{kernels::kRankedAreaWords});
    ops::detail::Workspace const workspace(
        device(), kernels::ranked_area_workspace_bytes(count, users.has_value()));
    kernels::RankedAreaArgs const args{.count = count,
                                       .scores = scores_.data(),
                                       .labels = labels_.data(),
                                       .weights = weights_ ? weights_->data() : nullptr,
                                       .weight_bits = weight_bits,
                                       .groups = users ? users->inverse.data() : nullptr,
                                       .group_count = users ? users->count.data() : nullptr,
                                       .workspace = workspace.data(),
                                       .result = reinterpret_cast<std::uint64_t*>(result.data())};
    auto used = reads(scores_, labels_);
    if (weights_) {
      used.add(*weights_);
    }
    if (users) {
      used.add(users->inverse);
      used.add(users->count);
    }
    issue(
        "ranked_area",
        used,
        workspace.with(writes(result)),
        [args](auto stream) { kernels::ranked_area(stream, args); },
        {},
        issued_at);
    auto const staged = msstream::detail::download(result.any(), issued_at);
    auto const* const words = static_cast<std::uint64_t const*>(staged.data());
    return {words, words + kernels::kRankedAreaWords};
  }

  [[nodiscard]] std::optional<double> area(std::int64_t count,
                                           std::uint32_t max_weight,
                                           std::source_location issued_at) const {
    int weight_bits = 0;
    if (weights_) {
      float const largest = std::bit_cast<float>(max_weight);
      if (largest == 0.0F) {
        return std::nullopt;
      }
      // All weights are below 2^exponent, and their sum is counted in less than 62 bits.
      int exponent = 0;
      static_cast<void>(std::frexp(largest, &exponent));
      weight_bits = 61 - exponent - std::bit_width(static_cast<std::uint64_t>(count));
    }
    auto const words = ranked(count, weight_bits, std::nullopt, issued_at);
    Wide twice_won = 0;
    for (int d = 3; d >= 0; --d) {
      twice_won = (twice_won << 32U) + words[static_cast<std::size_t>(kernels::kTwiceWon + d)];
    }
    auto const positive = words[kernels::kPositiveWeight];
    auto const negative = words[kernels::kNegativeWeight];
    if (positive == 0 || negative == 0) {
      return std::nullopt;
    }
    return static_cast<double>(twice_won) /
           (2.0 * static_cast<double>(positive) * static_cast<double>(negative));
  }
  [[nodiscard]] std::optional<double> area_of_users(std::int64_t count,
                                                    std::source_location issued_at) const {
    auto const found = ops::detail::unique(users_->rows(0, count).any(), {}, issued_at);
    auto const words = ranked(count, 0, found, issued_at);
    auto const examples = words[kernels::kGroupExamples];
    return examples > 0 ? std::optional(kernels::value_of(words.data() + kernels::kGroupAreas) /
                                        static_cast<double>(examples))
                        : std::nullopt;
  }

  std::int64_t capacity_;
  static constexpr std::int64_t kResetByReplays = -1;
  static constexpr std::int64_t kLoaded = -2;
  /// The examples that the host knows of since the last reset; kResetByReplays if a reset was
  /// captured, and kLoaded if they come from a checkpoint.
  mutable std::atomic<std::int64_t> known_examples_ = 0;
  TensorOf<float> scores_;
  TensorOf<std::uint8_t> labels_;
  std::optional<TensorOf<float>> weights_;
  std::optional<TensorOf<std::int64_t>> users_;
};

}  // namespace
}  // namespace detail

using msstream::detail::AnyRuntime;

detail::AnyMetric Auc<AnyRuntime>::make(detail::AnyDevice const& device,
                                        Options const& options,
                                        std::source_location issued_at) {
  return detail::AnyMetric(std::make_shared<detail::KeptState>(
      device, options.name, options.capacity, options.weighted, false, issued_at));
}

detail::AnyMetric GroupedAuc<AnyRuntime>::make(detail::AnyDevice const& device,
                                               Options const& options,
                                               std::source_location issued_at) {
  return detail::AnyMetric(std::make_shared<detail::KeptState>(
      device, options.name, options.capacity, options.weighted, true, issued_at));
}

}  // namespace msstream::metrics
