// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/differentiable_ops.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <algorithm>
#include <cstdint>
#include <source_location>
#include <vector>

namespace msstream {

/// Rows [begin, end) of a batch.
struct BatchPart {
  std::int64_t begin;
  std::int64_t end;

  [[nodiscard]] std::int64_t rows() const noexcept { return end - begin; }
  friend bool operator==(BatchPart const&, BatchPart const&) = default;
};

/// Cuts `rows` into `parts` whose sizes differ by at most one, larger parts first. If there are
/// fewer rows than parts, each part has one row. Throws std::invalid_argument unless both are at
/// least 1.
[[nodiscard]] inline std::vector<BatchPart> batch_parts(std::int64_t rows, int parts) {
  require(rows >= 1, "a batch of ", rows, " rows in parts; expected at least 1");
  require(parts >= 1, "a batch in ", parts, " parts; expected at least 1");
  std::int64_t const count = std::min<std::int64_t>(rows, parts);
  std::vector<BatchPart> made;
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    auto const end = begin + rows / count + (i < rows % count ? 1 : 0);
    made.push_back({begin, end});
    begin = end;
  }
  return made;
}

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
  std::vector<Tensor<float, R>> losses;
  for (auto const& part : batch_parts(rows, parts)) {
    auto const number = static_cast<int>(losses.size());
    StreamScope const scope(pool[number % pool.groups()], {.include_grad = true}, issued_at);
    Tensor<float, R> const loss = part_loss(part);
    require(loss.count() == 1,
            "loss_in_parts: the loss of a part has shape ",
            loss.shape(),
            "; expected a scalar");
    auto const weight = static_cast<double>(part.rows()) / static_cast<double>(rows);
    losses.push_back(
        ops::scale(tape, loss.reshaped(Shape{}), static_cast<float>(weight), issued_at));
  }
  return ops::add(tape, losses, issued_at);
}

}  // namespace msstream
