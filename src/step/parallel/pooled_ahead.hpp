// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/tensor/detail/typed.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace msstream::detail {

/// The all-to-all of rows that have been looked up ahead, if it waits for the gradients of a lookup
/// before. It ends with the ids that have the rows.
class LaterSend {
 public:
  explicit LaterSend(std::function<void()> send) : send_(std::move(send)) {}
  /// Sends the rows, once.
  void now() {
    if (auto const send = std::exchange(send_, nullptr)) {
      send();
    }
  }

 private:
  std::function<void()> send_;
};

/// The pooled rows of a lookup that came before it.
struct PooledAhead {
  /// The messages from all ranks: of all rows, or if they are split, the early ones, as
  /// ops::kernels::RowPlace has them.
  Floats rows;
  /// The positions of maxima in the bags that this rank has pooled ahead.
  std::optional<TensorOf<std::int32_t>> argmax = {};
  /// The bags of all ranks in the blocks of this rank, of which the lookup pools the late ones.
  struct Split {
    /// The sums of the ops::kernels::SplitCounts of all bags, by rank, slot and bag.
    TensorOf<std::int64_t> before;
    TensorOf<std::int64_t> late_ids;  ///< at the places of all ids; -1 in early bags
  };
  /// Without it, all rows are here.
  std::optional<Split> split = {};
  std::shared_ptr<LaterSend> send = {};  ///< null if the rows have been sent at once
};

}  // namespace msstream::detail
