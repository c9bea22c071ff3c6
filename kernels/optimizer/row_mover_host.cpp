// SPDX-License-Identifier: Apache-2.0
#include "optimizer/row_mover_host.hpp"

#include "common/real_types.hpp"

#include <msstream/base/detail/require.hpp>

namespace msstream::ops::kernels {

RowMover row_mover(char const* what, OptimizerKind kind, DType dtype, RowRounding const& rounding) {
  RowMover mover = nullptr;
  with_kind(kind, [&](auto known_kind) {
    with_real_type(what, dtype, [&](auto type) {
      using Weight = typename decltype(type)::type;
      mover = move_row<known_kind(), Weight>;
      if constexpr (HalfElement<Weight>) {
        if (rounding.is_stochastic) {
          mover = move_row_stochastically<known_kind(), Weight>;
        }
      }
    });
  });
  require(mover != nullptr, "{} is updated by an optimizer that does not exist", what);
  return mover;
}

StepRule step_rule_of(OptimizerRule const& rule,
                      GroupNumbers const& numbers,
                      StepState const* step) {
  StepRule of_step{};
  with_kind(rule.kind, [&](auto kind) { of_step = rule_of_step<kind()>(rule, numbers, step); });
  return of_step;
}

}  // namespace msstream::ops::kernels
