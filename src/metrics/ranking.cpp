// SPDX-License-Identifier: Apache-2.0
#include "metrics/metric_math.hpp"
#include "metrics/metric_state.hpp"
#include "ops/common/id_array.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/metrics/ndcg.hpp>
#include <msstream/metrics/retrieval.hpp>
#include <msstream/tensor/detail/any_copy.hpp>

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace msstream::metrics {
namespace detail {
namespace {

[[nodiscard]] std::int64_t checked(std::string const& name, std::int64_t k) {
  require(k >= 1 && k <= 1 << 20U, "{}: k is {}; expected 1 to 2^20", name, k);
  return k;
}

/// The state of the metrics that add discounts of ranks, of which the first k count.
class RankingState : public MetricState {
 public:
  RankingState(AnyDevice const& device,
               std::string name,
               std::int64_t k,
               double (*discount)(double rank),
               std::source_location issued_at)
      : MetricState(device.state(), std::move(name), 0, issued_at),
        places_(checked(this->name(), k)),
        discounts_(uploaded(device, discount, issued_at)) {}

  void add_reads(AnyBatch const&, Reads& read) const override { read.add(discounts_); }

 protected:
  [[nodiscard]] std::int64_t places() const noexcept { return places_; }
  void complete(kernels::MetricUpdate& update, AnyBatch const&) const override {
    update.places = places_;
    update.discounts = reinterpret_cast<double const*>(discounts_.data());
  }
  /// Sets the members of `update` that say where lists begin, for a batch with offsets.
  void complete_lists(kernels::MetricUpdate& update, AnyBatch const& batch) const {
    require(batch.offsets->shape().rank() == 1 && batch.offsets->count() >= 1,
            "{}: Batch::offsets of shape {}; expected [lists + 1]",
            name(),
            batch.offsets->shape());
    require(batch.offsets->device() == device(),
            "{}: the offsets are on another device than the metric",
            name());
    update.offsets = ops::detail::id_array(batch.offsets->any());
    update.lists = batch.offsets->count() - 1;
  }

 private:
  /// Uploads the sums of the discounts of the first 0, 1, … ranks, as the bits of float64 numbers.
  [[nodiscard]] msstream::detail::AnyTensor uploaded(AnyDevice const& device,
                                                     double (*discount)(double rank),
                                                     std::source_location issued_at) const {
    std::vector<std::int64_t> sums{0};
    double sum = 0.0;
    for (std::int64_t rank = 1; rank <= places_; ++rank) {
      sum += discount(static_cast<double>(rank));
      sums.push_back(std::bit_cast<std::int64_t>(sum));
    }
    return msstream::detail::upload(
        device.state(), DType::int64, sums.data(), sums.size(), Shape{places_ + 1}, issued_at);
  }

  std::int64_t places_;
  msstream::detail::AnyTensor discounts_;
};

class NdcgState final : public RankingState {
 public:
  NdcgState(AnyDevice const& device,
            Ndcg<AnyRuntime>::Options const& options,
            std::source_location issued_at)
      : RankingState(
            device,
            options.name,
            options.k,
            [](double rank) { return 1.0 / std::log2(rank + 1.0); },
            issued_at),
        exponential_(options.exponential) {}

  [[nodiscard]] std::optional<double> value(std::source_location issued_at) const override {
    Faults faults;
    faults.scores = "examples since the last reset() have scores that are NaN";
    static_assert(kernels::kMostGrade == 30.0F, "the message names it");
    faults.labels = "examples since the last reset() have grades outside [0, 30]";
    faults.weights =
        "offsets or weights since the last reset() are wrong; expected offsets that begin with 0, "
        "ascend, and end with the number of items, and weights of 0 or 1";
    auto const tally = read(issued_at, faults).tally;
    require_exact(tally, 32);
    auto const lists = tally.at[kernels::Tally::examples];
    return lists > 0 ? std::optional(kernels::value_of(tally.at + kernels::Tally::terms) /
                                     static_cast<double>(lists))
                     : std::nullopt;
  }
  void add_reads(AnyBatch const& batch, Reads& read) const override {
    RankingState::add_reads(batch, read);
    read.add(batch.offsets->any());
  }

 private:
  void complete(kernels::MetricUpdate& update, AnyBatch const& batch) const override {
    require(batch.offsets.has_value(),
            "{}: a batch without offsets; expected Batch::offsets of shape [lists + 1]",
            name());
    RankingState::complete(update, batch);
    complete_lists(update, batch);
    update.kind = kernels::MetricKind::gain;
    update.exponential = exponential_;
  }
  [[nodiscard]] Sum sum() const override {
    return {
        fmt::format("NDCG@{} with {} gains", places(), exponential_ ? "exponential" : "linear")};
  }

  bool exponential_;
};

/// The state of the metrics of the ranks of one target in each row, or of the relevant items of
/// lists.
class RetrievalState final : public RankingState {
 public:
  struct Kind {
    char const* sum;  ///< the name of what is summed
    kernels::ListTerm of_lists;
    double (*discount)(double rank);  ///< of a target
  };
  RetrievalState(AnyDevice const& device,
                 std::string name,
                 std::int64_t k,
                 Kind const& kind,
                 std::source_location issued_at)
      : RankingState(device, std::move(name), k, kind.discount, issued_at), kind_(kind) {}

  [[nodiscard]] std::optional<double> value(std::source_location issued_at) const override {
    Faults faults;
    faults.scores = "rows or items since the last reset() have scores that are NaN";
    faults.labels =
        "rows since the last reset() have targets outside the columns of the scores, or items "
        "labels outside [0, 1]";
    faults.weights =
        "examples since the last reset() have weights outside [0, 2^26], or, of lists, neither 0 "
        "nor 1, or wrong offsets; expected offsets that begin with 0, ascend, and end with the "
        "number of items";
    auto const tally = read(issued_at, faults).tally;
    require_exact(tally, 32);
    double const weights = kernels::value_of(tally.at + kernels::Tally::weights);
    return weights > 0.0
               ? std::optional(kernels::value_of(tally.at + kernels::Tally::terms) / weights)
               : std::nullopt;
  }
  void add_reads(AnyBatch const& batch, Reads& read) const override {
    RankingState::add_reads(batch, read);
    read.add(batch.targets ? batch.targets->any() : batch.offsets->any());
  }

 private:
  [[nodiscard]] std::int64_t rows_of(AnyBatch const& batch) const override {
    require(batch.targets || batch.offsets,
            "{}: a batch without targets and offsets; expected Batch::targets of shape [rows], or "
            "Batch::offsets of shape [lists + 1] and Batch::labels",
            name());
    if (!batch.targets) {
      return MetricState::rows_of(batch);
    }
    auto const& shape = batch.scores.shape();
    auto const rows = batch.targets->count();
    require(shape.rank() == 2 && shape[0] == rows,
            "{}: scores of shape {} for {} targets; expected [{}, columns]",
            name(),
            shape,
            rows,
            rows);
    require(batch.targets->device() == device(),
            "{}: the targets are on another device than the metric",
            name());
    return rows;
  }
  void complete(kernels::MetricUpdate& update, AnyBatch const& batch) const override {
    RankingState::complete(update, batch);
    if (!batch.targets) {
      complete_lists(update, batch);
      update.kind = kernels::MetricKind::relevance;
      update.list_term = kind_.of_lists;
      return;
    }
    update.kind = kernels::MetricKind::target;
    update.labels = nullptr;
    update.targets = ops::detail::id_array(batch.targets->any());
    update.columns = batch.scores.shape()[1];
  }
  [[nodiscard]] Sum sum() const override { return {fmt::format("{}@{}", kind_.sum, places())}; }

  Kind kind_;
};

[[nodiscard]] double one(double) {
  return 1.0;
}
[[nodiscard]] double reciprocal(double rank) {
  return 1.0 / rank;
}

template <class Options>
[[nodiscard]] AnyMetric retrieval_metric(AnyDevice const& device,
                                         Options const& options,
                                         RetrievalState::Kind const& kind,
                                         std::source_location issued_at) {
  return AnyMetric(
      std::make_shared<RetrievalState>(device, options.name, options.k, kind, issued_at));
}

}  // namespace
}  // namespace detail

using msstream::detail::AnyRuntime;
using ops::kernels::ListTerm;

detail::AnyMetric Ndcg<AnyRuntime>::make(detail::AnyDevice const& device,
                                         Options const& options,
                                         std::source_location issued_at) {
  return detail::AnyMetric(std::make_shared<detail::NdcgState>(device, options, issued_at));
}

detail::AnyMetric RecallAtK<AnyRuntime>::make(detail::AnyDevice const& device,
                                              Options const& options,
                                              std::source_location issued_at) {
  return detail::retrieval_metric(
      device, options, {"recall", ListTerm::recall, detail::one}, issued_at);
}

detail::AnyMetric HitRate<AnyRuntime>::make(detail::AnyDevice const& device,
                                            Options const& options,
                                            std::source_location issued_at) {
  return detail::retrieval_metric(
      device, options, {"the hit rate", ListTerm::hit, detail::one}, issued_at);
}

detail::AnyMetric MeanReciprocalRank<AnyRuntime>::make(detail::AnyDevice const& device,
                                                       Options const& options,
                                                       std::source_location issued_at) {
  return detail::retrieval_metric(
      device,
      options,
      {"the mean reciprocal rank", ListTerm::reciprocal_rank, detail::reciprocal},
      issued_at);
}

detail::AnyMetric MeanAveragePrecision<AnyRuntime>::make(detail::AnyDevice const& device,
                                                         Options const& options,
                                                         std::source_location issued_at) {
  return detail::retrieval_metric(
      device,
      options,
      {"the mean average precision", ListTerm::average_precision, detail::reciprocal},
      issued_at);
}

}  // namespace msstream::metrics
