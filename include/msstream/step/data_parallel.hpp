// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/comm/communicator.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/parameters.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstdint>
#include <memory>
#include <source_location>

namespace msstream {

struct DataParallelOptions {
  /// Gradients are put together into buckets of at most this size, except for a gradient that is
  /// larger by itself. Small buckets start earlier, and cost a latency each.
  std::int64_t bucket_bytes = std::int64_t{25} << 20U;
  /// mean, or sum.
  comm::Reduction reduction = comm::Reduction::mean;
};

namespace detail {

/// The implementation of DataParallel<R>, compiled once for all runtimes.
class AnyDataParallel {
 public:
  AnyDataParallel(Parameters<AnyRuntime> const& parameters,
                  comm::detail::AnyCommunicator const& communicator,
                  DataParallelOptions const& options,
                  std::source_location issued_at);

  void backward(AnyTape& tape, Floats const& loss, std::source_location issued_at) const;
  [[nodiscard]] Floats weighted(AnyTape& tape,
                                Floats const& loss,
                                Floats const& samples,
                                std::source_location issued_at) const;

 private:
  Parameters<AnyRuntime> parameters_;
  comm::detail::AnyCommunicator communicator_;
  DataParallelOptions options_;
};

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
/// ranks on the host, and in NCCL's order on GPUs; neither depends on stream groups.
///
/// Gradients of table rows follow after the backward: the ids and rows of all ranks are gathered,
/// and merged in the order of the ranks, so that an optimizer moves the rows that any rank has
/// looked up, and no others. A rank without a lookup in a table takes part with no rows.
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
  /// a bucket size below 1, for a reduction other than mean and sum, and, on all ranks, if their
  /// parameters or options differ: the message has the first difference. The communicator then
  /// stays usable.
  explicit DataParallel(Parameters<R> const& parameters,
                        comm::Communicator<R> const& communicator,
                        DataParallelOptions const& options = {},
                        std::source_location issued_at = std::source_location::current())
      : body_(parameters, communicator.any(), options, issued_at) {}

  /// Calls tape.backward(loss), and replaces the gradients of the parameters on the tape by their
  /// mean or sum over the ranks, those of earlier calls of tape.backward() included: with gradient
  /// accumulation, only the last micro-batch takes this function. Asynchronous; but if the store
  /// has tables, the host waits until the hosts of all ranks have called it, in each call outside a
  /// replay. Until the next clear(), backward() may not be called again.
  ///
  /// Throws std::logic_error, with the name of the parameter, if a dense parameter that is not
  /// frozen has no gradient on this rank, if a table has a gradient that does not come from a
  /// lookup, and if an operation that noted only some of its inputs adds a gradient after its
  /// bucket. Also throws what GradientTape::backward() and the collectives throw. The other ranks
  /// then get a PeerLost when this rank's communicator ends. Throws std::logic_error on all ranks
  /// if a table is frozen on some of them only.
  void backward(GradientTape<R>& tape,
                Tensor<float, R> const& loss,
                std::source_location issued_at = std::source_location::current()) const {
    body_.backward(tape, loss, issued_at);
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
  detail::AnyDataParallel body_;
};

}  // namespace msstream
