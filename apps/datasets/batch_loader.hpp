// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/dataset.hpp"
#include "datasets/staged_batch.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace msstream::datasets {

/// The plan of a training's batches. Batch b is batch number b modulo `batches_per_epoch()` of
/// epoch number b divided by `batches_per_epoch()`. The last batch of an epoch may be short, unless
/// `whole_batches`.
struct BatchPlan {
  std::vector<std::int64_t> rows;  ///< row numbers of the data set, in unshuffled order
  std::int64_t batch_size = 512;
  std::int64_t epochs = 1;
  bool shuffle = true;
  std::uint64_t seed = 1;
  /// Leaves out the short batch at the end of an epoch. If rows are shuffled, the rows left out
  /// differ from epoch to epoch.
  bool whole_batches = false;

  [[nodiscard]] std::int64_t batches_per_epoch() const {
    auto const count = static_cast<std::int64_t>(rows.size());
    return (whole_batches ? count : count + batch_size - 1) / batch_size;
  }
  [[nodiscard]] std::int64_t batch_count() const { return epochs * batches_per_epoch(); }
};

/// Fills staged batches ahead of their use, in worker threads.
///
/// A buffer is free, being filled, ready, or held by the caller (from next() to recycle()). A
/// worker takes a free buffer and the next batch number in one step, so the oldest missing batch
/// always has a buffer, and next() cannot starve. Batches come in order and hold the same rows for
/// any number of threads. The data set and the buffers belong to the caller and must outlive the
/// loader. One mutex guards all states; what a worker wrote into a buffer is visible to the thread
/// that next() gives it to. next(), recycle() and stop() may be called from different threads.
class BatchLoader {
 public:
  struct Options {
    std::size_t threads = 2;
    std::int64_t first_batch = 0;  ///< the batch to begin with; above 0 to resume
    /// True if other threads call recycle(), for example in a callback after a copy. next() then
    /// waits for a buffer even if all of them are held.
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
  /// Stops the loader, and waits for the batches that are being filled, but not for those that the
  /// caller holds.
  ~BatchLoader();

  [[nodiscard]] BatchPlan const& plan() const noexcept { return plan_; }
  [[nodiscard]] BatchLayout const& layout() const noexcept { return layout_; }

  /// Returns the next batch in order, or null after the last one and after stop(). Blocks until the
  /// batch is filled. If filling it threw, rethrows the exception, also in later calls. Throws
  /// std::logic_error if the caller holds every buffer, since the wait would never end (unless
  /// `recycled_elsewhere`).
  [[nodiscard]] StagedBatch* next();

  /// Gives a batch back to the loader, which fills it anew. Nothing may read the batch any more.
  void recycle(StagedBatch* batch);

  /// Fills `batch` with batch `index` now, in the calling thread. Thread-safe. Throws
  /// std::out_of_range if there is no batch of that index.
  void fill(std::int64_t index, StagedBatch& batch);

  /// Ends the filling of batches. A call of next() that is waiting returns null.
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
  EpochOrder orders_[2];  ///< indexed by epoch % 2, since workers may be in two epochs

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<StagedBatch*> free_;
  std::vector<Slot> slots_;  ///< a filled batch i is in slot i modulo the number of slots
  std::size_t held_ = 0;
  std::int64_t next_to_fill_;
  std::int64_t next_to_give_;
  bool stopping_ = false;
  std::vector<std::jthread> workers_;  ///< declared last, so that the threads are joined first
};

}  // namespace msstream::datasets
