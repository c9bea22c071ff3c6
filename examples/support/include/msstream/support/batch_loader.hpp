// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/support/dataset.hpp>
#include <msstream/support/staged_batch.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace msstream::support {

/// Which batches there are. Batch b is batch b modulo `batches_per_epoch()` of epoch b divided by
/// it; the last of an epoch may be short, unless `whole_batches`.
struct BatchPlan {
  std::vector<std::int64_t> rows;  ///< row numbers of the data set, in unshuffled order
  std::int64_t batch_rows = 512;
  std::int64_t epochs = 1;
  bool shuffle = true;
  std::uint64_t seed = 1;
  /// Leaves out what would be a short batch: other rows each epoch when they are shuffled.
  bool whole_batches = false;

  [[nodiscard]] std::int64_t batches_per_epoch() const {
    auto const count = static_cast<std::int64_t>(rows.size());
    return (whole_batches ? count : count + batch_rows - 1) / batch_rows;
  }
  [[nodiscard]] std::int64_t batch_count() const { return epochs * batches_per_epoch(); }
};

/// Fills staged batches ahead of their use, in worker threads.
///
/// States of a buffer: free, being filled, ready, held by the caller (from next() to recycle()). A
/// worker takes a free buffer and the next batch number in one step, so the oldest missing batch
/// always has a buffer, and next() cannot starve. Batches come in order and hold the same rows
/// however many threads there are. Ownership: the data set and the buffers are the caller's and
/// outlive the loader. One mutex guards all states; what a worker wrote into a buffer is visible to
/// whom next() gives it. next(), recycle() and stop() may be called from different threads.
class BatchLoader {
 public:
  struct Options {
    std::size_t threads = 2;
    std::int64_t first_batch = 0;  ///< where to begin; above 0 to resume
    /// recycle() comes from other threads, as from a callback after a copy; then next() waits for
    /// it even when every buffer is held.
    bool recycled_elsewhere = false;
  };

  /// Starts filling `buffers`. Throws std::invalid_argument for a plan without rows or without
  /// any batch, a batch below one row, no buffers, no threads or a first batch outside [0,
  /// batch_count()].
  BatchLoader(Dataset const& dataset,
              BatchPlan plan,
              std::vector<StagedBatch*> const& buffers,
              Options options);
  BatchLoader(Dataset const& dataset, BatchPlan plan, std::vector<StagedBatch*> const& buffers)
      : BatchLoader(dataset, std::move(plan), buffers, Options{}) {}
  BatchLoader(BatchLoader const&) = delete;
  BatchLoader& operator=(BatchLoader const&) = delete;
  /// Stops; waits for the batches that are being filled, but not for the caller's.
  ~BatchLoader();

  [[nodiscard]] BatchPlan const& plan() const noexcept { return plan_; }
  [[nodiscard]] BatchLayout const& layout() const noexcept { return layout_; }

  /// The next batch in order, or null after the last and after stop(). Blocks until it is filled.
  /// Rethrows what filling it threw, and goes on doing so. Throws std::logic_error when the caller
  /// holds every buffer, since that wait would never end (unless `recycled_elsewhere`).
  [[nodiscard]] StagedBatch* next();

  /// Gives back a batch that nothing reads any more.
  void recycle(StagedBatch* batch);

  /// Fills `batch` with batch `index` now, in the calling thread. Thread-safe. Throws
  /// std::out_of_range for an index that there is not.
  void fill(std::int64_t index, StagedBatch& batch);

  /// Ends the filling; a next() that waits returns null.
  void stop();

 private:
  using Order = std::shared_ptr<std::vector<std::int64_t> const>;
  struct Slot {
    StagedBatch* batch = nullptr;
    std::exception_ptr failure;
  };
  struct EpochOrder {
    std::int64_t epoch = -1;
    Order rows;
  };

  void work();
  [[nodiscard]] Order order_of(std::int64_t epoch);
  [[nodiscard]] Slot& slot_of(std::int64_t index);

  Dataset const& dataset_;
  BatchPlan plan_;
  BatchLayout layout_;
  bool recycled_elsewhere_;

  std::mutex order_mutex_;
  EpochOrder orders_[2];  ///< by the parity of the epoch: workers may be across a border

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<StagedBatch*> free_;
  std::vector<Slot> slots_;  ///< batch i is ready in slot i modulo the number of buffers
  std::size_t held_ = 0;
  std::int64_t next_to_fill_;
  std::int64_t next_to_give_;
  bool stopping_ = false;
  std::vector<std::jthread> workers_;  ///< last, so that it is joined first
};

}  // namespace msstream::support
