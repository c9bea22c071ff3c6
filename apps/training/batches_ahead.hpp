// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/pinned_array.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstddef>
#include <deque>
#include <utility>

namespace msstream::training {

/// Keeps the host from issuing more than a few batches ahead of the device, in a loop that reads no
/// results. Otherwise all batches of the loop could have memory at the same time.
template <Runtime R>
class BatchesAhead {
 public:
  /// Waits until all but the last few results have been computed. `result` is the result of the
  /// batch that was issued last, and has an element.
  void add(Tensor<float, R> const& result) {
    PinnedArray<float, R> copied(result.device(), 1);
    copy(copied, result.reshaped({result.count()}).rows(0, 1));
    issued_.push_back(std::move(copied));
    if (issued_.size() > kBatchesAhead) {
      issued_.front().wait();
      issued_.pop_front();
    }
  }

 private:
  static constexpr std::size_t kBatchesAhead = 2;

  std::deque<PinnedArray<float, R>> issued_;
};

}  // namespace msstream::training
