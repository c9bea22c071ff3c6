// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/metrics/metric.hpp>

#include <cstdint>
#include <source_location>
#include <string>

namespace msstream::metrics {

/// `NDCG@k`: the mean, over lists, of the discounted gain of the list's items in descending order
/// of their scores, divided by that of the best order (Järvelin and Kekäläinen 2002). The item of
/// rank r adds its gain / log2(r + 1), for the first k ranks. Items of equal score share the gains
/// of their ranks, as the mean over all their orders (McSherry and Najork 2008), which is what
/// scikit-learn's ndcg_score does. Lists in which no grade is above 0 are left out.
///
/// A batch has `offsets`: list i has the items [offsets[i], offsets[i + 1]), whose labels are
/// grades in [0, 30]. Offsets begin with 0, ascend, and end with the number of items, or with a
/// number from `count` to that of the items if the batch has a count. Others are counted on the
/// device, and value() throws std::invalid_argument with their number until reset(). Lists belong
/// to one batch as a whole. Weights are 0 or 1: an item of weight 0 is left out of its list. The
/// items of a list are compared with each other, so the time of a list grows with the square of its
/// length.
template <Runtime R = DefaultRuntime>
class Ndcg;

/// The options and the implementation of Ndcg, the same for all runtimes.
template <>
class Ndcg<msstream::detail::AnyRuntime> {
 public:
  struct Options {
    std::string name = "ndcg";  ///< in reports and checkpoints
    std::int64_t k = 10;        ///< how many of the first ranks count
    /// Whether the gain of a grade is 2^grade - 1; otherwise it is the grade, as in scikit-learn.
    bool exponential = true;
  };
  [[nodiscard]] static detail::AnyMetric make(detail::AnyDevice const& device,
                                              Options const& options,
                                              std::source_location issued_at);
};

template <Runtime R>
class Ndcg : public Metric<R> {
 public:
  using Options = typename Ndcg<msstream::detail::AnyRuntime>::Options;

  /// Makes a metric without lists. Throws std::invalid_argument unless `k` is from 1 to 2^20,
  /// and std::logic_error in a capture.
  explicit Ndcg(Device<R> const& device,
                Options const& options = {},
                std::source_location issued_at = std::source_location::current())
      : Metric<R>(Ndcg<msstream::detail::AnyRuntime>::make(device.engine(), options, issued_at)) {}
};

}  // namespace msstream::metrics
