// SPDX-License-Identifier: Apache-2.0
#include "comm/mail/row_buffers.hpp"
#include "step/parallel/equal_parameters.hpp"
#include "step/parallel/gradient_buckets.hpp"
#include "step/parallel/loss_of_parts.hpp"
#include "step/parallel/or_give_up.hpp"
#include "step/tape_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/step/half_batches.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>

#include <stdexcept>
#include <utility>
#include <vector>

namespace msstream::detail {

AnyHalfBatches::AnyHalfBatches(Parameters<AnyRuntime> const& parameters,
                               std::array<comm::detail::AnyCommunicator, 2> communicators,
                               DataParallelOptions const& options,
                               std::source_location issued_at)
    : parameters_(parameters), communicators_(std::move(communicators)), options_(options) {
  auto const check = [&] {
    require(options.reproducible == Reproducible::same_rank_count,
            "HalfBatches: {}; expected same_rank_count: the halves are those of a number of ranks",
            name_of(options.reproducible));
  };
  make_equal(parameters, communicators_[0], options, check, issued_at);
}

Floats AnyHalfBatches::backward(AnyTape& tape,
                                AnyStreamPool const& pool,
                                std::function<std::optional<Floats>(int half)> const& half_loss,
                                LossScale<AnyRuntime> const* scale,
                                std::source_location issued_at) const {
  if (tape.backward_count() != 0) {
    throw std::logic_error("HalfBatches: after another backward of this tape; call clear()");
  }
  auto const parts = 2 * communicators_[0].size();
  std::vector<std::optional<Floats>> losses;
  std::optional<GradientBuckets::Gradients> first;
  std::optional<Floats> loss_of_all;
  auto const run_half = [&](int half, comm::detail::AnyCommunicator const& communicator) {
    AnyStreamScope const scope(pool.group(half), {.include_grad = true}, issued_at);
    auto const loss = loss_of_part(half_loss, half, communicator);
    auto rows_of_half = comm::detail::RowBuffers::of_one_step();
    GradientBuckets buckets(
        tape, parameters_, communicator, options_, parts, rows_of_half, issued_at);
    losses.push_back(loss);
    buckets.watch_last_part();
    if (half == 1) {
      // Before the backward, so that the last gradient is not followed by another collective.
      loss_of_all =
          loss_of_parts(tape.state().device, losses, communicator, options_.reduction, issued_at);
    }
    if (loss) {
      backward_scaled(tape, *loss, scale, issued_at);
    }
    buckets.exchange(loss.has_value());
    if (half == 0) {
      first = buckets.take();
    } else {
      buckets.put_on_tape(first);
    }
  };
  // A half that fails on this rank gives up the communicators of both: the other ranks may wait in
  // either.
  or_give_up(communicators_[0], [&] {
    or_give_up(communicators_[1], [&] {
      run_half(0, communicators_[0]);
      run_half(1, communicators_[1]);
    });
  });
  note_scale(tape, scale);
  // To an optimizer, the halves are one backward.
  tape.state().backward_count = 1;
  tape.state().stepped.clear();
  return *loss_of_all;
}

}  // namespace msstream::detail
