// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "optimizer/non_finite.hpp"
#include "step/layer_names.hpp"

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
  /// An operation on the tape, as backward() plays it back.
  struct PlayedBack {
    std::size_t number;
    std::string_view name;
    std::source_location place;
  };

  /// Without parameters, findings name no layers.
  FiniteSearches(std::shared_ptr<DeviceState> const& device,
                 std::optional<Parameters<AnyRuntime>> parameters,
                 std::source_location issued_at);

  /// Notes an input of the operation that is recorded next. `is_result`: whether a recorded
  /// operation made any of its elements.
  void note_input(AnyTensor const& input, bool is_result);
  /// Searches an intermediate result of the operation that is recorded next, of which the inputs
  /// were noted. The inputs that are noted from now on are those behind the intermediate result.
  void search_part(std::string_view operation, AnyTensor const& part, std::source_location place);
  /// Searches the result of operation `number` on the tape, whose inputs were noted. If it is the
  /// first that is not finite, searches the inputs that no recorded operation made, and finds those
  /// instead.
  void search_operation(std::size_t number,
                        std::string_view operation,
                        AnyTensor const& result,
                        std::source_location place);
  /// Searches the gradient of a tensor `of`, or its first `row_count` rows. `by` has computed it;
  /// it is null for the gradient of the loss by itself.
  void search_gradient(AnyTensor const& of,
                       AnyTensor const& gradient,
                       std::optional<TensorOf<std::int64_t>> const& row_count,
                       std::optional<PlayedBack> const& by,
                       std::source_location issued_at);
  /// Searches a parameter after an update.
  void search_update(std::string const& parameter,
                     AnyTensor const& values,
                     std::source_location issued_at);
  /// Forgets the results of operations, whose memory may be used again.
  void forget_results() { layers_.forget_results(); }
  /// Begins the next step, in which the same searches have the same numbers as in the one before.
  void begin_step();
  [[nodiscard]] std::optional<Locator::Finding> first(std::source_location issued_at) const;
  void forget(std::source_location issued_at);

 private:
  /// An input of an operation, as it was in the latest step.
  struct Input {
    Shape shape;
    std::string parameter;  ///< its name; empty for data
  };
  /// The searches for one operation of a step: of its result, a gradient or a weight, and of its
  /// inputs. The shapes are those of the latest step.
  struct Searched {
    Locator::Finding result;
    std::vector<Input> inputs;
  };
  /// Returns the index of the operation in searched_, which is the same in all steps. Throws
  /// std::length_error if there are too many.
  [[nodiscard]] std::size_t index_of(Locator::Finding finding);
  void search(Locator::Finding finding,
              AnyTensor const& values,
              std::optional<TensorOf<std::int64_t>> const& row_count);
  void search_result(std::string_view operation,
                     LayerNames::Layer const& layer,
                     AnyTensor const& result,
                     std::source_location place);
  /// Completes the search, which has the fields that `values` do not decide, and issues it.
  void issue_search(ops::kernels::NonFiniteSearch search,
                    AnyTensor const& values,
                    std::optional<TensorOf<std::int64_t>> const& row_count,
                    std::source_location place);

  TensorOf<std::int64_t> found_;
  LayerNames layers_;
  std::vector<AnyTensor> inputs_;  ///< to be searched for the next recorded operation
  std::vector<Searched> searched_;
  std::map<std::string, std::size_t>
      indices_;  ///< in searched_, by phase, name, layer, place, occurrence
  std::map<std::string, int> occurrences_;  ///< of operations in this step
};

}  // namespace msstream::detail
