// SPDX-License-Identifier: Apache-2.0
#include "step/parallel/loss_of_parts.hpp"

#include "step/parallel/or_give_up.hpp"
#include "step/tape_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/format.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/matrix.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/trace/name_scope.hpp>

#include <cstdint>

namespace msstream::detail {

std::optional<Floats> loss_of_part(std::function<std::optional<Floats>(int part)> const& part_loss,
                                   int part,
                                   comm::detail::AnyCommunicator const& communicator) {
  return or_give_up(communicator, [&] {
    auto loss = part_loss(part);
    if (loss) {
      require(loss->count() == 1,
              "backward of part {} from a loss of shape {}; expected a scalar",
              part,
              loss->shape());
    }
    return loss;
  });
}

Floats loss_of_parts(std::shared_ptr<DeviceState> const& device,
                     std::vector<std::optional<Floats>> const& losses,
                     comm::detail::AnyCommunicator const& communicator,
                     comm::Reduction reduction,
                     std::source_location issued_at) {
  AnyStreamScope const scope(communicator.group(), {}, issued_at);
  NameScope const names("data_parallel");
  std::vector<Floats> own;
  for (auto const& loss : losses) {
    if (loss) {
      own.push_back(loss->reshaped({1, 1}));
    } else {
      own.emplace_back(device, Shape{1, 1});
      fill_any(own.back().any(), 0, issued_at);
    }
  }
  auto const own_count = static_cast<std::int64_t>(own.size());
  auto const count = communicator.size() * own_count;
  Floats const all(device, {count});
  comm::detail::all_gather(communicator,
                           (own_count == 1 ? own.front() : ops::detail::concat(own, issued_at))
                               .reshaped({own_count})
                               .any(),
                           all.any(),
                           issued_at);
  std::vector<Floats> parts;
  for (std::int64_t part = 0; part < count; ++part) {
    parts.push_back(all.rows(part, part + 1).reshaped({}));
  }
  auto const sum = count == 1 ? parts.front() : ops::detail::add(parts, issued_at);
  return reduction == comm::Reduction::mean && count > 1
             ? ops::detail::scale(sum, 1 / static_cast<float>(count), issued_at)
             : sum;
}

void backward_scaled(AnyTape& tape,
                     Floats const& loss,
                     LossScale<AnyRuntime> const* scale,
                     std::source_location issued_at) {
  tape.backward(scale == nullptr ? loss : scale->scaled(tape, loss, issued_at), issued_at);
}

void note_scale(AnyTape& tape, LossScale<AnyRuntime> const* scale) {
  if (scale != nullptr) {
    tape.state().loss_scale = scale->state().data();
  }
}

}  // namespace msstream::detail
