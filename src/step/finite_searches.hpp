// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "optimizer/non_finite.hpp"

#include <msstream/step/non_finite_locator.hpp>
#include <msstream/tensor/detail/typed.hpp>

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
  /// Returns the number of a search. Searches of different steps share a number if they are of the
  /// same operation, so that the numbers stay few.
  [[nodiscard]] std::uint64_t number_of(Locator::Finding finding);
  [[nodiscard]] bool is_searched(AnyTensor const& values) const noexcept;
  /// Completes the search, which has the fields that `values` do not decide, and issues it.
  void issue_search(ops::kernels::NonFiniteSearch search,
                    AnyTensor const& values,
                    std::optional<TensorOf<std::int64_t>> const& row_count,
                    std::source_location place);

  TensorOf<std::int64_t> found_;
  std::vector<Locator::Finding> searches_;        ///< what was searched, by number
  std::map<std::string, std::uint64_t> numbers_;  ///< by phase, name, place and occurrence
  std::map<std::string, int> occurrences_;        ///< of operations in this step
};

}  // namespace msstream::detail
