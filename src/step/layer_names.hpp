// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "step/by_memory.hpp"

#include <msstream/step/parameters.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::detail {

/// Returns the longest path that begins both names, without its last separator, `/` or `.`: "top/1"
/// for "top/1/weight" and "top/1/bias". Returns the first name if they have no path in common.
[[nodiscard]] std::string common_path(std::string_view first, std::string_view second);

/// The layers of a step's operations, named after the parameters that the operations read. Not
/// synchronised.
class LayerNames {
 public:
  /// The place of an operation in a model.
  struct Layer {
    /// The name of the parameter that the operation read, or the path that the names of several
    /// have in common; empty if none is known.
    std::string name;
    /// Whether the operation read no parameter, and the name is that of the layer which made its
    /// first input.
    bool is_behind;
  };

  /// Without parameters, all names are empty.
  explicit LayerNames(std::optional<Parameters<AnyRuntime>> parameters)
      : parameters_(std::move(parameters)) {}

  /// Returns the name of the parameter that shares elements with the tensor; empty without one.
  [[nodiscard]] std::string parameter_of(AnyTensor const& tensor);
  /// Notes an input of the operation that is recorded next.
  void note_input(AnyTensor const& input);
  /// Returns the layer of an intermediate result of the operation that is recorded next, from the
  /// inputs that were noted so far. Inputs that are noted later are behind it.
  [[nodiscard]] Layer take_part();
  /// Returns the layer of the operation's result, from the inputs that were noted behind its last
  /// part, and keeps that of operation `number` and of its result.
  Layer record(std::size_t number, AnyTensor const& result);
  /// Returns the layer of a recorded operation, all parts included; an empty name if it was
  /// recorded before this object was made.
  [[nodiscard]] Layer of(std::size_t number) const;
  /// Forgets which results belong to which layers, because their memory may be used again.
  void forget_results();

 private:
  /// Returns the path that a name has in common with those of the parts.
  [[nodiscard]] std::string with_parts(std::string const& name) const;

  std::optional<Parameters<AnyRuntime>> parameters_;
  std::int64_t named_elements_ = 0;  ///< elements of the parameters in names_
  ByMemory<std::string> names_;
  ByMemory<Layer> results_;
  std::vector<Layer> recorded_;  ///< by the number of the operation
  Layer next_{{}, true};         ///< of the operation that is recorded next
  std::string parts_;            ///< the path that the layers of its parts have in common
};

}  // namespace msstream::detail
