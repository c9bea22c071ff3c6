// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/name_pattern.hpp"
#include "step/owned_parameters.hpp"

#include <msstream/base/format.hpp>
#include <msstream/step/detail/memory_range.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/parameters.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace msstream::detail {

/// A parameter of a store that no optimizer moves.
struct Untrained {
  std::string name;
  AnyTensor tensor;
  MemoryRange elements;
  bool is_chosen;  ///< whether the store was added whole, or by a pattern that matches the name

  /// Returns the line of a message about it.
  [[nodiscard]] std::string message(AnyTape const& tape) const {
    return fmt::format("\n  \"{}\" of shape {} has {}, and no optimizer has it: {}",
                       name,
                       tensor.shape(),
                       tape.has_gradient(tensor)
                           ? "a gradient"
                           : fmt::format("no gradient ({})", tape.why_no_gradient(tensor)),
                       is_chosen ? "it was made after its Parameters were added; call add() again"
                                 : "no pattern with which its Parameters were added matches its "
                                   "name; add it, or freeze it");
  }
};

/// The stores of parameters from which an optimizer was filled, whole or by patterns of names. They
/// may get more parameters later.
class ParameterStores {
 public:
  /// Adds a store of which the optimizer has what the pattern matches, or all without a pattern,
  /// and notes the optimizer's parameters in the store.
  void add(Parameters<AnyRuntime> const& parameters,
           std::optional<std::string> const& names,
           std::shared_ptr<OwnedParameters const> const& owned) {
    parameters.note_optimizer(owned);
    stores_.emplace_back(parameters, names);
  }
  /// Calls function(name, tensor, is_chosen) for each dense parameter and table, once for each time
  /// that its store was added. `is_chosen` says whether the optimizer takes its name from the
  /// store.
  template <class Function>
  void for_each(Function const& function) const {
    using Kind = Parameters<AnyRuntime>::Kind;
    for (auto const& [parameters, names] : stores_) {
      parameters.for_each(
          [&, &names = names](std::string const& name, AnyTensor const& tensor, Kind kind) {
            if (kind != Kind::buffer) {
              function(name, tensor, !names || matches_pattern(*names, name));
            }
          });
    }
  }
  /// Returns each parameter once that is not frozen and for which is_trained(name, tensor) is
  /// false.
  template <class IsTrained>
  [[nodiscard]] std::vector<Untrained> untrained(IsTrained const& is_trained) const {
    std::vector<Untrained> found;
    for_each([&](std::string const& name, AnyTensor const& tensor, bool is_chosen) {
      auto const elements = MemoryRange::of(tensor);
      auto const same = std::ranges::find(found, elements, &Untrained::elements);
      if (same != found.end()) {
        same->is_chosen = same->is_chosen || is_chosen;
      } else if (!tensor.immutable() && !is_trained(name, tensor)) {
        found.push_back({name, tensor, elements, is_chosen});
      }
    });
    return found;
  }
  /// Calls function(owned) for the parameters of each optimizer that was filled from one of the
  /// stores and still exists.
  template <class Function>
  void for_each_optimizer(Function const& function) const {
    for (auto const& store : stores_) {
      for (auto const& owned : store.first.optimizers()) {
        function(*owned);
      }
    }
  }

 private:
  std::vector<std::pair<Parameters<AnyRuntime>, std::optional<std::string>>> stores_;
};

}  // namespace msstream::detail
