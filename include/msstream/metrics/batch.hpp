// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/bags.hpp>
#include <msstream/ops/common.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/tensor/tensor.hpp>

#include <concepts>
#include <cstdint>
#include <optional>

namespace msstream::metrics {

/// The meaning of the scores of a metric: logits, whose probabilities are 1 / (1 + exp(-score)), or
/// probabilities in [0, 1].
enum class Input : std::uint8_t { logits, probabilities };

/// The examples that an update adds to metrics. Tensors are of any shape with one element per
/// example, such as [rows] or [rows, 1], if their metric names no other. An example whose weight is
/// 0 does not count at all, whatever its other numbers are: padding may be NaN.
template <Runtime R = DefaultRuntime>
struct Batch {
  Tensor<float, R> scores;  ///< one for each example, or [rows, columns] with targets
  /// In [0, 1]; a label above 0.5 is positive. For Ndcg, grades; for errors, any numbers. Null: for
  /// Mean, and for retrieval with targets, which use no labels.
  std::optional<Tensor<float, R>> labels = {};
  std::optional<Tensor<float, R>> weights = {};  ///< in [0, 2^26], or 0 and 1; null: all 1
  /// A device scalar: only the first *count examples exist. Null: all exist.
  ops::DeviceCount<R> count = {};
  std::optional<ops::IdTensor<R>> users = {};    ///< the user of each example, for GroupedAuc
  std::optional<ops::IdTensor<R>> offsets = {};  ///< [lists + 1], for Ndcg and RecallAtK; see there
  /// [rows], for RecallAtK and its like: the column of each row that should rank first.
  std::optional<ops::IdTensor<R>> targets = {};

  /// Converts to a batch without a runtime type. For use by the library only.
  template <std::same_as<Batch<msstream::detail::AnyRuntime>> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    return {scores, labels, weights, count, users, offsets, targets};
  }
};

}  // namespace msstream::metrics
