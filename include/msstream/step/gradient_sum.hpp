// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/mechanism.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <utility>

#if MSSTREAM_TEST_SWITCHES
#include <algorithm>
#include <vector>
#endif

namespace msstream::detail {

/// A gradient of which parts come one after the other. They are added in that order: sums of floats
/// depend on it, and it is the same for any number of groups.
template <Runtime R>
class GradientSum {
 public:
  using Gradient = Tensor<float, R>;

  explicit GradientSum(Gradient first) : sum_(std::move(first)) { keep(sum_); }

  [[nodiscard]] Gradient const& sum() const noexcept { return sum_; }

  void add(Gradient const& part) {
    auto const next = part.reshaped(sum_.shape());
    keep(next);
    // A new tensor: the parts may be shared with other tensors' gradients.
    sum_ = works(Mechanism::gradient_accumulation) ? ops::add<R>({sum_, next}) : by_group();
  }

 private:
#if MSSTREAM_TEST_SWITCHES
  struct Part {
    int group;
    Gradient gradient;
  };
  void keep(Gradient const& gradient) {
    auto const* const scope = StreamScope<R>::current(*gradient.device()->context);
    parts_.push_back({scope == nullptr ? -1 : scope->group()->index(), gradient});
  }
  /// All parts again, in the order of the groups that made them.
  Gradient by_group() const {
    auto parts = parts_;
    std::ranges::stable_sort(parts, {}, &Part::group);
    std::vector<Gradient> terms;
    for (auto const& part : parts) {
      terms.push_back(part.gradient);
    }
    return ops::add<R>(terms);
  }

  std::vector<Part> parts_;
#else
  static void keep(Gradient const&) {}
  Gradient by_group() const {
    return sum_;
  }
#endif

  Gradient sum_;
};

}  // namespace msstream::detail
