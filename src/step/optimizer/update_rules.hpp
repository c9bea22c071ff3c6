// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/optimizer.hpp>

#include <fmt/core.h>

#include <optional>
#include <string>

namespace msstream::detail {

/// The rules of an optimizer for dense parameters and for tables. The step counter has the learning
/// rate of dense parameters, so the rates of the rules with which kernels update are ratios to it.
class UpdateRules {
 public:
  /// Throws std::invalid_argument for rules that cannot be those of one optimizer.
  UpdateRules(ops::OptimizerRule const& rule, std::optional<ops::OptimizerRule> const& table_rule)
      : stated_((ops::require_rule("Optimizer", rule), rule)),
        dense_(rule),
        tables_(table_rule.value_or(rule)) {
    if (table_rule) {
      require_together(*table_rule);
    }
    dense_.learning_rate = 1.0F;
    tables_.learning_rate = table_rule ? table_rule->learning_rate / rule.learning_rate : 1.0F;
  }

  /// Returns the rule of dense parameters as the program states it.
  [[nodiscard]] ops::OptimizerRule const& stated() const noexcept { return stated_; }
  [[nodiscard]] float base_rate() const noexcept { return stated_.learning_rate; }
  [[nodiscard]] ops::OptimizerRule const& dense() const noexcept { return dense_; }
  [[nodiscard]] ops::OptimizerRule const& tables() const noexcept { return tables_; }
  /// Returns the rule by whose betas the step counter computes Adam's corrections.
  [[nodiscard]] ops::OptimizerRule const& of_counter() const noexcept {
    return has_corrections(dense_) ? dense_ : tables_;
  }
  /// Returns the names of the kinds.
  [[nodiscard]] std::string name() const {
    std::string const dense = ops::name_of(dense_.kind);
    return tables_.kind == dense_.kind
               ? dense
               : fmt::format("{}, tables {}", dense, ops::name_of(tables_.kind));
  }

 private:
  [[nodiscard]] static bool has_corrections(ops::OptimizerRule const& rule) noexcept {
    auto const kind = ops::dense_kind(rule.kind);
    return kind == ops::OptimizerKind::adam || kind == ops::OptimizerKind::adamw ||
           kind == ops::OptimizerKind::lamb;
  }
  void require_together(ops::OptimizerRule const& table_rule) const {
    ops::require_rule("Optimizer: table_rule", table_rule);
    require(stated_.learning_rate > 0.0F,
            "Optimizer: a table_rule beside a learning_rate of 0, which has no ratio to that of "
            "tables; set it to 0 by set_learning_rate() or by the schedule");
    require(
        !has_corrections(dense_) || !has_corrections(tables_) ||
            (dense_.beta1 == tables_.beta1 && dense_.beta2 == tables_.beta2),
        "Optimizer: {} with betas {} and {}, and a table_rule {} with {} and {}; expected equal "
        "betas, because both have Adam's corrections of one step counter",
        ops::name_of(dense_.kind),
        dense_.beta1,
        dense_.beta2,
        ops::name_of(tables_.kind),
        tables_.beta1,
        tables_.beta2);
  }

  ops::OptimizerRule stated_;
  ops::OptimizerRule dense_;
  ops::OptimizerRule tables_;
};

}  // namespace msstream::detail
