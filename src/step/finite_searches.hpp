// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "optimizer/non_finite.hpp"

#include <msstream/step/non_finite_locator.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::detail {

/// The searches of a NonFiniteLocator. They write to one word of device memory, one after the
/// other, so that the first of them that finds something is the first in the order of issue.
class FiniteSearches {
 public:
  using Locator = NonFiniteLocator<AnyRuntime>;

  FiniteSearches(std::shared_ptr<DeviceState> const& device, std::source_location issued_at);

  /// Searches the result of an operation. If it is the first that is not finite, searches the
  /// operation's inputs, which no recorded operation made, and finds those instead.
  void search_operation(std::string_view operation,
                        AnyTensor const& result,
                        std::vector<AnyTensor> const& inputs,
                        std::source_location place);
  /// Searches the values, or those of the first `row_count` rows.
  void search(Locator::Phase phase,
              std::string_view operation,
              AnyTensor const& values,
              std::optional<TensorOf<std::int64_t>> const& row_count,
              std::source_location place);
  /// Begins the next step, in which the same searches have the same numbers as in the one before.
  void begin_step() noexcept { occurrences_.clear(); }
  [[nodiscard]] std::optional<Locator::Finding> first(std::source_location issued_at) const;
  void forget(std::source_location issued_at);

 private:
  /// The searches for one operation of a step: of its result, a gradient or a weight, and of its
  /// inputs. The shapes are those of the latest step.
  struct Searched {
    Locator::Finding result;
    std::vector<Shape> inputs;
  };
  /// Returns the index of the operation in searched_, which is the same in all steps. Throws
  /// std::length_error if there are too many.
  [[nodiscard]] std::size_t index_of(Locator::Finding finding);
  /// Completes the search, which has the fields that `values` do not decide, and issues it.
  void issue_search(ops::kernels::NonFiniteSearch search,
                    AnyTensor const& values,
                    std::optional<TensorOf<std::int64_t>> const& row_count,
                    std::source_location place);

  TensorOf<std::int64_t> found_;
  std::vector<Searched> searched_;
  std::map<std::string, std::size_t> indices_;  ///< in searched_, by phase, name, place, occurrence
  std::map<std::string, int> occurrences_;      ///< of operations in this step
};

}  // namespace msstream::detail
