// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/gradient_tape.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstdint>
#include <functional>
#include <source_location>
#include <vector>

namespace msstream {

/// Rows [begin, end) of a batch.
struct BatchPart {
  std::int64_t begin;  ///< the first row
  std::int64_t end;    ///< the row after the last one

  /// Returns the number of rows.
  [[nodiscard]] std::int64_t rows() const noexcept { return end - begin; }
  friend bool operator==(BatchPart const&, BatchPart const&) = default;
};

/// Cuts `rows` into `parts` whose sizes differ by at most one, larger parts first. If there are
/// fewer rows than parts, each part has one row. Throws std::invalid_argument unless both are at
/// least 1.
[[nodiscard]] std::vector<BatchPart> batch_parts(std::int64_t rows, int parts);

namespace detail {

// The implementation of loss_in_parts(), compiled once for all runtimes.

[[nodiscard]] Floats loss_in_parts(GradientTape<AnyRuntime>& tape,
                                   AnyStreamPool const& pool,
                                   std::int64_t rows,
                                   int parts,
                                   std::function<Floats(BatchPart const&)> const& part_loss,
                                   std::source_location issued_at);

}  // namespace detail

/// Returns the loss of a batch of `rows`, from the losses of its parts. Each part is issued on
/// another group of the pool, round-robin, and its backward is issued on the same group. While one
/// part waits, for example for a collective, another can run.
///
///     auto const loss = loss_in_parts(tape, pool, rows, 2, [&](BatchPart part) {
///       return model.loss(tape, batch.rows(part.begin, part.end));
///     });
///     tape.backward(loss);
///
/// `part_loss` returns the mean over the rows of a part, a scalar that the tape has recorded. It
/// takes its rows with Tensor::rows(), or with ops::rows() if they need a gradient. The parts'
/// losses are weighted by their numbers of rows and added in the order of the parts, on the current
/// group. The result is the mean over the batch, up to rounding: the same bits for any groups, but
/// different bits for different numbers of parts. Throws what batch_parts() and `part_loss` throw,
/// and std::invalid_argument if a part's loss is not a scalar.
template <Runtime R, class PartLoss>
[[nodiscard]] Tensor<float, R> loss_in_parts(
    GradientTape<R>& tape,
    StreamPool<R> const& pool,
    std::int64_t rows,
    int parts,
    PartLoss&& part_loss,
    std::source_location issued_at = std::source_location::current()) {
  auto const loss_of = [&](BatchPart const& part) -> Tensor<float, R> { return part_loss(part); };
  return detail::typed<R>(
      detail::loss_in_parts(tape, pool.engine(), rows, parts, loss_of, issued_at));
}

}  // namespace msstream
