// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/comm/detail/any_communicator.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/loss_scale.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <vector>

namespace msstream::detail {

/// Returns the loss of one of this rank's parts, or nothing if it has no samples. If it is no
/// scalar, throws std::invalid_argument. If that or `part_loss` throws, gives the communicator up,
/// so that the other ranks do not wait for this one.
[[nodiscard]] std::optional<Floats> loss_of_part(
    std::function<std::optional<Floats>(int part)> const& part_loss,
    int part,
    comm::detail::AnyCommunicator const& communicator);

/// Returns the mean or the sum of the losses of all parts of all ranks, a scalar, in an order of
/// additions that depends on the number of parts alone. `losses` are those of this rank's parts, at
/// least one, and as many on each rank; null counts as 0. Issued to the communicator's group.
[[nodiscard]] Floats loss_of_parts(std::shared_ptr<DeviceState> const& device,
                                   std::vector<std::optional<Floats>> const& losses,
                                   comm::detail::AnyCommunicator const& communicator,
                                   comm::Reduction reduction,
                                   std::source_location issued_at);

/// Plays back the loss of a part, multiplied by the scale unless it is null.
void backward_scaled(AnyTape& tape,
                     Floats const& loss,
                     LossScale<AnyRuntime> const* scale,
                     std::source_location issued_at);
/// Notes that the gradients on the tape, which are those of all ranks, have the scale unless it is
/// null, for a rank that has played back no loss.
void note_scale(AnyTape& tape, LossScale<AnyRuntime> const* scale);

}  // namespace msstream::detail
