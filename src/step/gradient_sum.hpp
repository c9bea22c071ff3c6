// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/mechanism.hpp"
#include "ops/elementwise/any_elementwise.hpp"
#include "step/engine_queries.hpp"

#include <msstream/stream/detail/any_stream.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <source_location>
#include <utility>
#include <vector>

namespace msstream::detail {

/// The sum of gradients of one type that are added one after the other. The order of additions is
/// the order of add(), with an earlier total last, and is the same for any number of stream groups,
/// so that the rounded sum is, too. Several gradients are added in one launch, when the sum is
/// requested or when they are many. The launch is on the group of the newest gradient, with the
/// source location of the operation that computed it.
class GradientSum {
 public:
  GradientSum(AnyTensor first, std::source_location issued_at) {
    keep(std::move(first), issued_at);
  }

  [[nodiscard]] AnyTensor const& sum() const {
    if (parts_.size() > 1) {
      add_up();
    }
    return parts_.front().gradient;
  }

  [[nodiscard]] Shape const& shape() const { return parts_.front().gradient.shape(); }

  void add(AnyTensor const& part, std::source_location issued_at) {
    keep(part.reshaped(parts_.front().gradient.shape()), issued_at);
    if (parts_.size() >= kMostParts || parts_.size() * part.bytes() > kMostBytes) {
      add_up();
    }
  }

 private:
  struct Part {
    AnyTensor gradient;
    std::shared_ptr<StreamGroup> group;  ///< the current group at add(); null if none
    std::source_location issued_at;      ///< the source location of the forward operation

    [[nodiscard]] int number() const {
      return group == nullptr ? -1 : AnyStreamGroup(group).index();
    }
  };

  static constexpr std::size_t kMostParts = 32;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20U;

  void keep(AnyTensor gradient, std::source_location issued_at) {
    auto group = current_scope(*gradient.device()).group();
    parts_.push_back({std::move(gradient), std::move(group), issued_at});
  }
  void add_up() const {
    auto const group = parts_.back().group;
    auto const issued_at = parts_.back().issued_at;
    if (!works(Mechanism::gradient_accumulation)) {
      std::ranges::stable_sort(parts_, {}, &Part::number);
    }
    std::vector<AnyTensor> terms;
    for (auto const& part : parts_) {
      terms.push_back(part.gradient);
    }
    if (has_total_) {
      // Adds the earlier total last, so that it is rounded once in this sum, and not again with
      // each of the other terms.
      std::rotate(terms.begin(), terms.begin() + 1, terms.end());
    }
    std::optional<AnyStreamScope> scope;
    if (group != nullptr) {
      scope.emplace(group, StreamScopeOptions{}, issued_at);
    }
    // Stores the total in a new tensor, because the gradients of other tensors may share the memory
    // of the terms.
    Part total{ops::detail::add(terms, issued_at), group, issued_at};
    parts_.clear();
    parts_.push_back(std::move(total));
    has_total_ = true;
  }

  mutable std::vector<Part> parts_;  ///< the terms; at least one
  mutable bool has_total_ = false;   ///< whether the first part is a sum of earlier parts
};

}  // namespace msstream::detail
