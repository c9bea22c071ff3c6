// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "step/by_memory.hpp"

#include <msstream/base/shape.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::detail {

/// The parameters and tables of an optimizer, found by the addresses of their elements. Does not
/// keep the tensors alive; the optimizer does. Not synchronised.
class OwnedParameters {
 public:
  struct Parameter {
    std::string name;
    Shape shape;
    MemoryRange elements;
    bool is_table;  ///< whether a step updates only the rows that have a gradient
  };

  OwnedParameters() = default;
  OwnedParameters(OwnedParameters const&) = delete;
  OwnedParameters& operator=(OwnedParameters const&) = delete;

  void add(Parameter parameter) {
    places_.emplace(parameter.elements, parameters_.size());
    parameters_.push_back(std::move(parameter));
    version_ = next_version();
    apart_from_.clear();
  }
  [[nodiscard]] std::size_t count() const noexcept { return parameters_.size(); }
  /// Throws std::logic_error if there are more parameters than the `count` that a list of tensors
  /// has. The message begins with `call` and names the first one that the list lacks.
  void require_count(char const* call, std::size_t count) const {
    if (parameters_.size() > count) {
      throw std::logic_error(
          fmt::format("{}: the list of tensors was made before \"{}\" was added to the optimizer, "
                      "and lacks its "
                      "state; make the list after the last add()",
                      call,
                      parameters_[count].name));
    }
  }
  /// Calls function(parameter) for each parameter, in the order of add().
  template <class Function>
  void for_each(Function function) const {
    std::ranges::for_each(parameters_, function);
  }
  /// Calls function(parameter) for each parameter or table that contains any of the elements.
  template <class Function>
  void for_each_overlap(MemoryRange const& elements, Function function) const {
    places_.for_each_overlap(elements,
                             [&](auto const& entry) { function(parameters_[entry.value]); });
  }
  /// Calls function(parameter, parameter of `other`) for each pair of parameters that share
  /// elements. If there is no such pair, remembers the other optimizer, so that later steps do not
  /// search it again.
  template <class Function>
  void for_each_shared(OwnedParameters const& other, Function function) const {
    if (std::ranges::find(apart_from_, other.version_) != apart_from_.end()) {
      return;
    }
    bool shares = false;
    for (auto const& parameter : parameters_) {
      other.for_each_overlap(parameter.elements, [&](Parameter const& others) {
        shares = true;
        function(parameter, others);
      });
    }
    if (!shares) {
      remember_apart(other);
    }
  }

 private:
  static constexpr std::size_t kMostRemembered = 16;

  [[nodiscard]] static std::uint64_t next_version() noexcept {
    static std::atomic<std::uint64_t> versions{0};
    return versions.fetch_add(1, std::memory_order_relaxed);
  }
  void remember_apart(OwnedParameters const& other) const {
    if (apart_from_.size() == kMostRemembered) {
      apart_from_.clear();
    }
    apart_from_.push_back(other.version_);
  }

  std::vector<Parameter> parameters_;
  ByMemory<std::size_t> places_;  ///< indices in parameters_, by memory range
  /// The version of the content. Unique in the process.
  std::uint64_t version_ = next_version();
  mutable std::vector<std::uint64_t> apart_from_;  ///< versions of optimizers that share no element
                                                   ///< with this one
};

}  // namespace msstream::detail
