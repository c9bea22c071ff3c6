// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/comm/communicator.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/loss_scale.hpp>
#include <msstream/step/parameters.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string_view>
#include <utility>

namespace msstream::comm::detail {

class RowBuffers;

}  // namespace msstream::comm::detail

namespace msstream {

/// Tells whether the bits of the gradients depend on the number of ranks.
enum class Reproducible : std::uint8_t { same_rank_count, any_rank_count };

/// Returns the name of the choice, as options of programs take it.
[[nodiscard]] constexpr std::string_view name_of(Reproducible reproducible) {
  return reproducible == Reproducible::same_rank_count ? "same_rank_count" : "any_rank_count";
}

struct DataParallelOptions {
  /// Gradients are put together into buckets of at most this size, and of at most 1 MiB or a
  /// quarter of all gradients, whichever is more, except for a gradient that is larger by itself.
  /// Small buckets start earlier, and cost a latency each.
  std::int64_t bucket_bytes = std::int64_t{25} << 20U;
  /// mean, or sum: over the ranks, or over the parts of DataParallel::backward_in_parts().
  comm::Reduction reduction = comm::Reduction::mean;
  /// any_rank_count: a batch consists of `parts` parts, whatever the number of ranks, and the sums
  /// over parts have an order that does not depend on who computes them. So any number of ranks
  /// that divides `parts` gives the same bits. Needs DataParallel::backward_in_parts().
  Reproducible reproducible = Reproducible::same_rank_count;
  /// The parts of a batch with any_rank_count: a power of two, which the number of ranks divides.
  int parts = 8;
};

namespace detail {

/// The implementation of DataParallel<R>, compiled once for all runtimes.
class AnyDataParallel {
 public:
  AnyDataParallel(Parameters<AnyRuntime> const& parameters,
                  comm::detail::AnyCommunicator const& communicator,
                  DataParallelOptions const& options,
                  std::source_location issued_at);

  [[nodiscard]] int parts() const noexcept;
  [[nodiscard]] int own_parts() const noexcept { return parts() / communicator_.size(); }
  [[nodiscard]] int first_part() const noexcept { return communicator_.rank() * own_parts(); }

  void backward(AnyTape& tape, Floats const& loss, std::source_location issued_at) const;
  [[nodiscard]] Floats backward_in_parts(
      AnyTape& tape,
      std::function<std::optional<Floats>(int part)> const& part_loss,
      LossScale<AnyRuntime> const* scale,
      std::source_location issued_at) const;
  [[nodiscard]] Floats weighted(AnyTape& tape,
                                Floats const& loss,
                                Floats const& samples,
                                std::source_location issued_at) const;

 private:
  Parameters<AnyRuntime> parameters_;
  comm::detail::AnyCommunicator communicator_;
  DataParallelOptions options_;
  std::shared_ptr<comm::detail::RowBuffers> row_buffers_;
};

/// Returns a function that calls `loss_of(number)`, which returns a Tensor<float, R> or null, and
/// returns its result without the runtime's type.
template <Runtime R, class LossOf>
[[nodiscard]] auto untyped_losses(LossOf& loss_of) {
  return [&loss_of](int number) -> std::optional<Floats> {
    std::optional<Tensor<float, R>> loss = loss_of(number);
    return loss ? std::optional<Floats>(*std::move(loss)) : std::nullopt;
  };
}

}  // namespace detail

/// Trains equal copies of the parameters on all ranks of a communicator, each on a part of the
/// batch: the constructor gives every rank the values of rank 0, and backward() averages the
/// gradients.
///
///     DataParallel const parallel(parameters, communicator);
///     …
///     parallel.backward(tape, loss);  // of this rank's rows
///     optimizer.step(tape);           // equal on all ranks
///     tape.clear();
///
/// Gradients are averaged in buckets, in the reverse order in which the parameters were made. The
/// all-reduce of a bucket is issued, to the communicator's group, when the last of its gradients
/// is, and runs beside the rest of the backward. The elements are combined in the order of the
/// ranks on the host and by kernels of our own, and in NCCL's order by NCCL; neither depends on
/// stream groups. Copies of a DataParallel share memory in which they gather rows.
///
/// Gradients of table rows follow after the backward: the ids and rows of all ranks are gathered,
/// and merged in the order of the ranks, so that an optimizer moves the rows that any rank has
/// looked up, and no others. A rank without a lookup in a table takes part with no rows. The ids of
/// a table that is looked up once are gathered and grouped before, beside the backward. If its bags
/// have a fixed number of ids and are summed or averaged, what is gathered after the backward are
/// the gradients of the lookup's output, where those are fewer bytes than the rows'.
///
/// All ranks must have made the same parameters in the same order, frozen the same ones, and record
/// the same operations. The constructor compares the parameters: names, shapes, element types,
/// kinds, their order, and which are frozen. If more are made, frozen or unfrozen later, on all
/// ranks alike, a new DataParallel compares them again. A frozen parameter is left as it is.
/// Capture-safe. Use it on one thread.
template <Runtime R = DefaultRuntime>
class DataParallel {
 public:
  /// Copies the values of rank 0 to the parameters and buffers of all other ranks, except for
  /// frozen ones. Blocks the host until all ranks have called it. Throws std::invalid_argument for
  /// a bucket size below 1, for a reduction other than mean and sum, with any_rank_count for parts
  /// that are no power of two or that the number of ranks does not divide, and, on all ranks, if
  /// their parameters or options differ: the message has the first difference. The communicator
  /// then stays usable.
  explicit DataParallel(Parameters<R> const& parameters,
                        comm::Communicator<R> const& communicator,
                        DataParallelOptions const& options = {},
                        std::source_location issued_at = std::source_location::current())
      : body_(parameters, communicator.any(), options, issued_at) {}

  /// Calls tape.backward(loss), and replaces the gradients of the parameters on the tape by their
  /// mean or sum over the ranks, those of earlier calls of tape.backward() included: with gradient
  /// accumulation, only the last micro-batch takes this function. Asynchronous; but if the store
  /// has tables, the host waits until the hosts of all ranks have called it, and until they have
  /// played their operations back, in each call outside a replay. Until the next clear(),
  /// backward() may not be called again.
  ///
  /// Throws std::logic_error, with the name of the parameter, if a dense parameter that is not
  /// frozen has no gradient on this rank, if a table has a gradient that does not come from a
  /// lookup, and if an operation that noted only some of its inputs adds a gradient after its
  /// bucket. Also throws what GradientTape::backward() and the collectives throw. The other ranks
  /// then get a PeerLost with the message at once, and the communicator is useless. Throws
  /// std::logic_error on all ranks if a table is frozen on some of them only, and with
  /// any_rank_count.
  void backward(GradientTape<R>& tape,
                Tensor<float, R> const& loss,
                std::source_location issued_at = std::source_location::current()) const {
    body_.backward(tape, loss, issued_at);
  }

  /// The number of parts of a batch: DataParallelOptions::parts with any_rank_count, otherwise the
  /// number of ranks.
  [[nodiscard]] int parts() const noexcept { return body_.parts(); }
  /// The number of parts that each rank computes.
  [[nodiscard]] int own_parts() const noexcept { return body_.own_parts(); }
  /// The first part that this rank computes; the others follow it.
  [[nodiscard]] int first_part() const noexcept { return body_.first_part(); }

  /// Trains on this rank's parts of a batch: calls `part_loss(part)` for each of own_parts() parts
  /// from first_part() on, which records the operations of the part's samples on the tape and
  /// returns their loss, or nothing if the part has no samples, and plays each back before the
  /// next. Then leaves the mean or the sum of the gradients of all parts on the tape, as backward()
  /// does. Returns the mean or the sum of their losses, a scalar that is equal on all ranks.
  ///
  ///     auto const loss = parallel.backward_in_parts(tape, [&](int part) {
  ///       return std::optional(model.loss(tape, batches[part - parallel.first_part()]));
  ///     });
  ///
  /// If a loss is a mean over samples, and the parts have different numbers of them, multiply it by
  /// samples * parts() / samples of the batch, or, for the sum, by samples / samples of the batch.
  /// A part without samples counts as zeros, and touches no row of a table.
  ///
  /// The operations of a part must not depend on the other parts of this rank. With any_rank_count,
  /// the bits are then those of any other number of ranks. Throws what backward() and `part_loss`
  /// throw, std::invalid_argument if a loss is not a scalar, and std::logic_error after another
  /// backward() since the tape's clear().
  template <class PartLoss>
  [[nodiscard]] Tensor<float, R> backward_in_parts(
      GradientTape<R>& tape,
      PartLoss&& part_loss,
      std::source_location issued_at = std::source_location::current()) const {
    return in_parts(tape, part_loss, nullptr, issued_at);
  }
  /// Like the other form, and multiplies the losses by the scale before they are played back, for
  /// gradients in float16. Returns the mean or the sum of the losses without the scale. All ranks
  /// have equal scales. Gradients that overflow on one rank do on all of them after the exchange,
  /// so that the optimizers of all ranks skip the same steps, and change their scales alike. A rank
  /// whose parts have no samples takes part in that.
  template <class PartLoss>
  [[nodiscard]] Tensor<float, R> backward_in_parts(
      GradientTape<R>& tape,
      PartLoss&& part_loss,
      LossScale<R> const& scale,
      std::source_location issued_at = std::source_location::current()) const {
    return in_parts(tape, part_loss, &scale, issued_at);
  }

  /// Returns `loss`, the mean over this rank's samples, times the number of samples over its mean
  /// among the ranks. The average of the gradients is then that of all samples, though the ranks
  /// have different numbers of them. `samples` has one element, at least 1: the number on this
  /// rank. All ranks must call it. The backward waits for the exchange of these numbers.
  /// Asynchronous.
  [[nodiscard]] Tensor<float, R> weighted(
      GradientTape<R>& tape,
      Tensor<float, R> const& loss,
      Tensor<float, R> const& samples,
      std::source_location issued_at = std::source_location::current()) const {
    return detail::typed<R>(body_.weighted(tape, loss, samples, issued_at));
  }

 private:
  template <class PartLoss>
  [[nodiscard]] Tensor<float, R> in_parts(GradientTape<R>& tape,
                                          PartLoss& part_loss,
                                          LossScale<R> const* scale,
                                          std::source_location issued_at) const {
    return detail::typed<R>(
        body_.backward_in_parts(tape, detail::untyped_losses<R>(part_loss), scale, issued_at));
  }

  detail::AnyDataParallel body_;
};

}  // namespace msstream
