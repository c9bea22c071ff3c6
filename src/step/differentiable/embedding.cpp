// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding/embedding.hpp"

#include "step/differentiable/refuse_result.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/ops/bags.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/step/differentiable/embedding.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstdint>
#include <source_location>
#include <utility>

namespace msstream::ops::detail {

Floats embedding_lookup(AnyTape& tape,
                        AnyTensor const& table,
                        AnyBags const& bags,
                        LookupOptions<AnyRuntime> options,
                        std::source_location issued_at) {
  bool const moves_table = tape.wants_gradient(table);
  bool const has_sums = options.pooling == Pooling::sum || options.pooling == Pooling::none;
  bool const moves_weights = bags.weights && has_sums && tape.wants_gradient(bags.weights->any());
  if (bags.weights && !has_sums) {
    refuse_result(&tape, "embedding_lookup without Pooling::sum", "weights", &*bags.weights);
  }
  if (moves_table && options.pooling == Pooling::max && !options.argmax) {
    require(table.shape().rank() == 2, "embedding_lookup: table of shape {}", table.shape());
    options.argmax.emplace(table.device(), pooled_shape(bags, options.pooling, table.shape()[1]));
  }
  Floats pooled(msstream::detail::OfKnownType(),
                embedding_lookup(DType::float32, table, bags, options, issued_at));
  if (moves_table || moves_weights) {
    auto play_back = [table,
                      bags,
                      moves_table,
                      moves_weights,
                      pooling = options.pooling,
                      argmax = options.argmax,
                      issued_at](AnyTape& playing, Floats const& gradient) {
      std::int64_t const rows = table.shape()[0];
      if (moves_weights) {
        playing.add_gradient(*bags.weights,
                             embedding_weight_gradient(table, bags, pooling, gradient, issued_at),
                             issued_at);
      }
      if (moves_table && !playing.take_pooled_gradient(table, gradient)) {
        auto const& unique = playing.unique_rows(bags, rows, pooling, issued_at);
        playing.add_row_gradient(
            table,
            embedding_gradient(bags, unique, rows, pooling, gradient.any(), argmax, issued_at),
            issued_at);
      }
    };
    tape.note_input(table);
    if (bags.weights) {
      tape.note_inputs(*bags.weights);
    }
    if (moves_table) {
      tape.record_lookup("embedding_lookup",
                         table,
                         bags,
                         options.pooling,
                         pooled,
                         std::move(play_back),
                         issued_at);
    } else {
      tape.record("embedding_lookup", pooled, std::move(play_back), issued_at);
    }
  }
  return pooled;
}

}  // namespace msstream::ops::detail
