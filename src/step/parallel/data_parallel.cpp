// SPDX-License-Identifier: Apache-2.0
#include "comm/mail/row_buffers.hpp"
#include "step/parallel/equal_parameters.hpp"
#include "step/parallel/gradient_buckets.hpp"
#include "step/parallel/loss_of_parts.hpp"
#include "step/parallel/or_give_up.hpp"
#include "step/tape_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/format.hpp>
#include <msstream/ops/arithmetic.hpp>
#include <msstream/step/data_parallel.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/tensor/detail/any_copy.hpp>

#include <bit>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <vector>

namespace msstream::detail {

using comm::Reduction;

AnyDataParallel::AnyDataParallel(Parameters<AnyRuntime> const& parameters,
                                 comm::detail::AnyCommunicator const& communicator,
                                 DataParallelOptions const& options,
                                 std::source_location issued_at)
    : parameters_(parameters),
      communicator_(communicator),
      options_(options),
      row_buffers_(std::make_shared<comm::detail::RowBuffers>()) {
  auto const check = [&] {
    require(options.reproducible == Reproducible::same_rank_count ||
                (options.parts >= 1 && std::has_single_bit(static_cast<unsigned>(options.parts)) &&
                 options.parts % communicator.size() == 0),
            "DataParallel: batches of {} parts on {} ranks; expected a power of two that the "
            "number of ranks divides",
            options.parts,
            communicator.size());
  };
  make_equal(parameters, communicator, options, check, issued_at);
}

int AnyDataParallel::parts() const noexcept {
  return options_.reproducible == Reproducible::any_rank_count ? options_.parts
                                                               : communicator_.size();
}

void AnyDataParallel::backward(AnyTape& tape,
                               Floats const& loss,
                               std::source_location issued_at) const {
  if (options_.reproducible == Reproducible::any_rank_count) {
    throw std::logic_error(
        "DataParallel: backward() with any_rank_count; call backward_in_parts(), which has as many "
        "parts of a batch for any number of ranks");
  }
  require(loss.count() == 1,
          "DataParallel: backward from a loss of shape {}; expected a scalar",
          loss.shape());
  GradientBuckets buckets(
      tape, parameters_, communicator_, options_, parts(), *row_buffers_, issued_at);
  buckets.watch_last_part();
  or_give_up(communicator_, [&] { tape.backward(loss, issued_at); });
  buckets.exchange(true);
  buckets.put_on_tape();
}

Floats AnyDataParallel::backward_in_parts(
    AnyTape& tape,
    std::function<std::optional<Floats>(int part)> const& part_loss,
    LossScale<AnyRuntime> const* scale,
    std::source_location issued_at) const {
  if (tape.backward_count() != 0) {
    throw std::logic_error(
        "DataParallel: backward_in_parts() after another backward of this tape; call clear()");
  }
  GradientBuckets buckets(
      tape, parameters_, communicator_, options_, parts(), *row_buffers_, issued_at);
  std::vector<std::optional<Floats>> losses;
  std::optional<Floats> loss_of_all;
  for (int part = first_part(); part < first_part() + own_parts(); ++part) {
    auto const loss = loss_of_part(part_loss, part, communicator_);
    bool const is_last = part + 1 == first_part() + own_parts();
    losses.push_back(loss);
    if (is_last) {
      buckets.watch_last_part();
      // Before the backward, so that the last gradient is not followed by another collective.
      loss_of_all =
          loss_of_parts(tape.state().device, losses, communicator_, options_.reduction, issued_at);
    }
    if (loss) {
      or_give_up(communicator_, [&] { backward_scaled(tape, *loss, scale, issued_at); });
    }
    if (is_last) {
      buckets.exchange(loss.has_value());
      buckets.put_on_tape();
    } else {
      buckets.keep_part(loss.has_value());
    }
  }
  note_scale(tape, scale);
  // To an optimizer, the parts are one backward.
  tape.state().backward_count = 1;
  tape.state().stepped.clear();
  return *loss_of_all;
}

Floats AnyDataParallel::weighted(AnyTape& tape,
                                 Floats const& loss,
                                 Floats const& samples,
                                 std::source_location issued_at) const {
  require(samples.count() == 1 && loss.count() == 1,
          "DataParallel: a loss of shape {} weighted by numbers of samples of shape {}; expected "
          "scalars",
          loss.shape(),
          samples.shape());
  auto const own = samples.reshaped(loss.shape());
  Floats const mean(own.device(), own.shape());
  {
    AnyStreamScope const scope(communicator_.group(), {}, issued_at);
    copy_on_device(mean.any(), own.any(), issued_at);
  }
  comm::detail::all_reduce(communicator_, mean.any(), Reduction::mean, issued_at);
  auto const weight = ops::detail::divide(own, mean, issued_at);
  tape.without_gradient(weight.any());
  return ops::detail::multiply(tape, loss, weight, issued_at);
}

}  // namespace msstream::detail
