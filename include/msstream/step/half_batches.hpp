// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/comm/communicator.hpp>
#include <msstream/step/data_parallel.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/loss_scale.hpp>
#include <msstream/step/parameters.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <utility>

namespace msstream {

namespace detail {

/// The implementation of HalfBatches<R>, compiled once for all runtimes.
class AnyHalfBatches {
 public:
  AnyHalfBatches(Parameters<AnyRuntime> const& parameters,
                 std::array<comm::detail::AnyCommunicator, 2> communicators,
                 DataParallelOptions const& options,
                 std::source_location issued_at);

  [[nodiscard]] Floats backward(AnyTape& tape,
                                AnyStreamPool const& pool,
                                std::function<std::optional<Floats>(int half)> const& half_loss,
                                LossScale<AnyRuntime> const* scale,
                                std::source_location issued_at) const;

 private:
  Parameters<AnyRuntime> parameters_;
  std::array<comm::detail::AnyCommunicator, 2> communicators_;
  DataParallelOptions options_;
};

}  // namespace detail

/// Trains equal copies of the parameters on all ranks, like DataParallel, with this rank's part of
/// a batch in two halves. Each half has a stream group and a communicator of its own, so that the
/// collectives of one half run beside the computation of the other.
///
///     HalfBatches<R> const halves(device, parameters, world);
///     …
///     auto const loss = halves.backward(tape, [&](int half) {
///       return std::optional(model.loss(tape, batch[half], halves.communicator(half)));
///     });
///     optimizer.step(tape);
///     tape.clear();
///
/// The gradients of each half are exchanged in buckets, beside the rest of its backward and, those
/// of the first half, beside all of the second. They are added at the end: first half, then second.
/// The result is the mean over the batch, up to rounding, and its bits do not depend on stream
/// groups. Each half exchanges as many bytes as the whole batch would.
///
/// The rules of DataParallel for the ranks hold here, too. Capture-safe. Use it on one thread.
template <Runtime R = DefaultRuntime>
class HalfBatches {
 public:
  /// Makes communicators of the names "first half" and "second half". Blocks the host until all
  /// ranks have called it, and gives them the values of rank 0. `options.reproducible` must be
  /// same_rank_count. Throws as the constructors of Communicator and DataParallel.
  HalfBatches(Device<R> const& device,
              Parameters<R> const& parameters,
              comm::World const& world = {},
              DataParallelOptions const& options = {},
              std::source_location issued_at = std::source_location::current())
      : pool_(std::make_unique<StreamPool<R>>(device,
                                              StreamPoolOptions{.groups = 2, .log = nullptr})),
        communicators_{comm::Communicator<R>(device, world, {.name = "first half"}, issued_at),
                       comm::Communicator<R>(device, world, {.name = "second half"}, issued_at)},
        body_(parameters, {communicators_[0].any(), communicators_[1].any()}, options, issued_at) {}

  /// The group of a half, 0 or 1, on which its operations run unless scopes of their own place them
  /// elsewhere.
  [[nodiscard]] StreamGroup<R> const& group(int half) const { return (*pool_)[half]; }
  /// The communicator of a half, for the collectives of its forward and backward.
  [[nodiscard]] comm::Communicator<R> const& communicator(int half) const {
    return communicators_.at(static_cast<std::size_t>(half));
  }
  /// The halves of all ranks. Half `half` of this rank is part `2 * rank + half` of a batch.
  [[nodiscard]] int parts() const noexcept { return 2 * communicators_[0].size(); }

  /// Trains on both halves: calls `half_loss(half)` for each of them, in a scope of its group,
  /// which records the operations of the half on the tape and returns their loss, or nothing if the
  /// half has no samples, and plays it back. Then leaves the mean or the sum of the gradients of
  /// all halves of all ranks on the tape, and returns that of their losses, a scalar that is equal
  /// on all ranks. If a loss is a mean over samples, and halves have different numbers of them,
  /// weigh it as for DataParallel::backward_in_parts(). Asynchronous, as DataParallel::backward()
  /// is. Throws what that throws and `half_loss` throws, and std::logic_error after another
  /// backward() since the tape's clear().
  template <class HalfLoss>
  [[nodiscard]] Tensor<float, R> backward(
      GradientTape<R>& tape,
      HalfLoss&& half_loss,
      std::source_location issued_at = std::source_location::current()) const {
    return both(tape, half_loss, nullptr, issued_at);
  }
  /// Like the other form, with a scale of the losses: see DataParallel::backward_in_parts().
  template <class HalfLoss>
  [[nodiscard]] Tensor<float, R> backward(
      GradientTape<R>& tape,
      HalfLoss&& half_loss,
      LossScale<R> const& scale,
      std::source_location issued_at = std::source_location::current()) const {
    return both(tape, half_loss, &scale, issued_at);
  }

 private:
  template <class HalfLoss>
  [[nodiscard]] Tensor<float, R> both(GradientTape<R>& tape,
                                      HalfLoss& half_loss,
                                      LossScale<R> const* scale,
                                      std::source_location issued_at) const {
    return detail::typed<R>(body_.backward(
        tape, pool_->engine(), detail::untyped_losses<R>(half_loss), scale, issued_at));
  }

  std::unique_ptr<StreamPool<R>> pool_;
  std::array<comm::Communicator<R>, 2> communicators_;
  detail::AnyHalfBatches body_;
};

}  // namespace msstream
