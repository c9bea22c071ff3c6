// SPDX-License-Identifier: Apache-2.0
#include "metrics/metric_math.hpp"
#include "metrics/metric_state.hpp"
#include "ops/common/id_array.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/metrics/ndcg.hpp>
#include <msstream/tensor/detail/any_copy.hpp>

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

namespace msstream::metrics {
namespace detail {
namespace {

class NdcgState final : public MetricState {
 public:
  NdcgState(AnyDevice const& device,
            Ndcg<AnyRuntime>::Options const& options,
            std::source_location issued_at)
      : MetricState(device.state(), checked(options), 0, issued_at),
        places_(options.k),
        exponential_(options.exponential),
        discounts_(uploaded_discounts(device, options.k, issued_at)) {}

  [[nodiscard]] std::optional<double> value(std::source_location issued_at) const override {
    auto const tally = read(issued_at,
                            "offsets or weights since the last reset() are wrong; expected offsets "
                            "that begin with 0, ascend, and end with the number of items, and "
                            "weights of 0 or 1")
                           .tally;
    auto const lists = tally.at[kernels::Tally::examples];
    return lists > 0 ? std::optional(kernels::value_of(tally.at + kernels::Tally::terms) /
                                     static_cast<double>(lists))
                     : std::nullopt;
  }
  void add_reads(Reads& read) const override { read.add(discounts_); }

 private:
  [[nodiscard]] static std::string checked(Ndcg<AnyRuntime>::Options const& options) {
    require(options.k >= 1 && options.k <= 1 << 20U,
            "{}: k is {}; expected 1 to 2^20",
            options.name,
            options.k);
    return options.name;
  }
  /// Uploads the sums of the discounts of the first 0, 1, … ranks, as the bits of float64 numbers.
  [[nodiscard]] static msstream::detail::AnyTensor uploaded_discounts(
      AnyDevice const& device, std::int64_t places, std::source_location issued_at) {
    std::vector<std::int64_t> sums{0};
    double sum = 0.0;
    for (std::int64_t rank = 1; rank <= places; ++rank) {
      sum += 1.0 / std::log2(static_cast<double>(rank + 1));
      sums.push_back(std::bit_cast<std::int64_t>(sum));
    }
    return msstream::detail::upload(
        device.state(), DType::int64, sums.data(), sums.size(), Shape{places + 1}, issued_at);
  }
  void complete(kernels::MetricUpdate& update, AnyBatch const& batch) const override {
    require(batch.offsets.has_value(),
            "{}: a batch without offsets; expected Batch::offsets of shape [lists + 1]",
            name());
    require(batch.offsets->shape().rank() == 1 && batch.offsets->count() >= 1,
            "{}: Batch::offsets of shape {}; expected [lists + 1]",
            name(),
            batch.offsets->shape());
    require(batch.offsets->device() == device(),
            "{}: the offsets are on another device than the metric",
            name());
    update.kind = kernels::MetricKind::gain;
    update.exponential = exponential_;
    update.offsets = ops::detail::id_array(batch.offsets->any());
    update.lists = batch.offsets->count() - 1;
    update.places = places_;
    update.discounts = reinterpret_cast<double const*>(discounts_.data());
  }

  [[nodiscard]] Sum sum() const override {
    return {fmt::format("NDCG@{} with {} gains", places_, exponential_ ? "exponential" : "linear")};
  }

  std::int64_t places_;
  bool exponential_;
  msstream::detail::AnyTensor discounts_;
};

}  // namespace
}  // namespace detail

detail::AnyMetric Ndcg<msstream::detail::AnyRuntime>::make(detail::AnyDevice const& device,
                                                           Options const& options,
                                                           std::source_location issued_at) {
  return detail::AnyMetric(std::make_shared<detail::NdcgState>(device, options, issued_at));
}

}  // namespace msstream::metrics
