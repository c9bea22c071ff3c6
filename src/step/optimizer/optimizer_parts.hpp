// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/name_pattern.hpp"
#include "ops/optimizer/table_update.hpp"
#include "step/cut_off.hpp"
#include "step/owned_parameters.hpp"

#include <msstream/base/format.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

/// The parts of an optimizer that need none of its state: tables that are updated together, and
/// the lines of messages about parameters.
namespace msstream::detail {

/// Embedding tables that one operation updates together.
struct Bunch {
  std::shared_ptr<StreamGroup> group;  ///< null for the caller's group
  std::string name;                    ///< that of the first table
  std::vector<ops::detail::TableUpdate> tables = {};
  /// The gradients of many tables that all tables of the bunch have. Null for gradients of their
  /// own, and if the options ask for tables to be updated together.
  void const* shared = nullptr;
};

/// Returns the group of all tables, on which the step counter lets their updates not wait for the
/// gradients of dense parameters. Null if the tables have several groups or none, or if some
/// gradient of a table is summed on the group already: the update of dense parameters would wait
/// for that.
[[nodiscard]] inline std::shared_ptr<StreamGroup> group_moved_at_once(
    std::vector<Bunch> const& bunches) {
  auto const is_summed = [](ops::detail::TableUpdate const& table) {
    auto const* const part = std::get_if<ops::detail::TablePart>(&table.gradient);
    return part == nullptr || part->all->grouped() == nullptr;
  };
  bool const is_one = !bunches.empty() && std::ranges::all_of(bunches, [&](Bunch const& bunch) {
    return bunch.group == bunches.front().group && std::ranges::none_of(bunch.tables, is_summed);
  });
  return is_one ? bunches.front().group : nullptr;
}

/// Opens a StreamScope of the group. Returns an empty optional if the group is null.
[[nodiscard]] inline std::optional<AnyStreamScope> scope_of(
    std::shared_ptr<StreamGroup> const& group, std::source_location issued_at) {
  return group == nullptr
             ? std::nullopt
             : std::optional<AnyStreamScope>(std::in_place, group, StreamScopeOptions{}, issued_at);
}

/// Appends a line to `found` if a parameter or table has no gradient on the tape.
inline void add_if_without_gradient(std::string& found,
                                    char const* what,
                                    std::string const& name,
                                    AnyTensor const& tensor,
                                    AnyTape const& tape) {
  if (!tape.has_gradient(tensor)) {
    found += fmt::format("\n  {} \"{}\" of shape {} has no gradient: {}",
                         what,
                         name,
                         tensor.shape(),
                         tape.why_no_gradient(tensor));
  }
}

/// Appends a line to `found` for a view in which rows were looked up without effect on the loss,
/// although its parameter or table has a gradient.
inline void add_if_unreached_rows(std::string& found,
                                  OwnedParameters const& owned,
                                  MemoryRange const& range,
                                  Shape const& shape,
                                  AnyTape const& tape) {
  owned.for_each_overlap(range, [&](auto const& owner) {
    if (tape.has_gradient(owner.elements)) {
      found += fmt::format(
          "\n  rows of \"{}\" of shape {} have no gradient: a view of shape {} was looked up, "
          "but {}",
          owner.name,
          owner.shape,
          shape,
          kCutOff);
    }
  });
}

/// Throws std::logic_error for a parameter that is not frozen, although it was when its Parameters
/// were added.
inline void refuse_unfrozen(std::string const& name, AnyTensor const& tensor) {
  if (!tensor.immutable()) {
    throw std::logic_error(
        fmt::format("Optimizer::step: \"{}\" of shape {} was frozen when its Parameters were "
                    "added, and is frozen no more; call add() again, or leave it out by a "
                    "pattern of names",
                    name,
                    tensor.shape()));
  }
}

/// Throws std::logic_error if a pattern of OptimizerOptions::may_lack_gradient matches none of the
/// names that `for_each_name` passes to its argument.
template <class ForEachName>
void require_matches(std::vector<std::string> const& patterns, ForEachName const& for_each_name) {
  for (auto const& pattern : patterns) {
    bool has_match = false;
    for_each_name(
        [&](std::string const& name) { has_match = has_match || matches_pattern(pattern, name); });
    if (!has_match) {
      throw std::logic_error(
          fmt::format("Optimizer: \"{}\" of may_lack_gradient matches the whole name of no "
                      "parameter or table of the optimizer, or of the Parameters given to add()",
                      pattern));
    }
  }
}

/// Appends a line to `found` for a parameter that another optimizer has updated by the same
/// gradients.
inline void add_moved(std::string& found,
                      OwnedParameters::Parameter const& mine,
                      OwnedParameters::Parameter const& others) {
  found += fmt::format(
      "\n  {} \"{}\" of shape {} is in two optimizers: another one, which has it as \"{}\" of "
      "shape {}, has moved it since the last backward()",
      mine.is_table ? "table" : "parameter",
      mine.name,
      mine.shape,
      others.name,
      others.shape);
}

}  // namespace msstream::detail
