// SPDX-License-Identifier: Apache-2.0
#include "step/tape_state.hpp"

#include <msstream/ops/random.hpp>
#include <msstream/ops/random_draws.hpp>
#include <msstream/step/differentiable/random.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <cstdint>
#include <string_view>

namespace msstream::ops::detail {

void note_draw(AnyTape& tape,
               char const* operation,
               RandomGenerator<AnyRuntime> const& random,
               std::string_view name,
               Shape const& shape,
               DrawOptions const& options) {
  if (!tape.is_recording()) {
    return;
  }
  std::int64_t const samples = shape.rank() > 0 ? shape[0] : 1;
  auto const first = options.first_sample;
  tape.state().draws.add(random.note_draw(operation, name, first, first + samples));
}

}  // namespace msstream::ops::detail
