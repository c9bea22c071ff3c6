// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/fitted_transforms.hpp"
#include "data/reader_use.hpp"
#include "data/window_maker.hpp"

#include <msstream/data/loader.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace msstream::data::detail {

/// The threads of a Loader and what they share.
///
/// A worker repeats the first of these that is possible: gather the next batch of the first
/// complete window, make the order of a window, parse the next chunk of the reader. Chunks are
/// numbered when the reader gives them and join the windows in that order; batches are numbered
/// when a worker begins them and are returned in that order. So batches do not depend on who was
/// faster. One mutex guards everything but the contents of chunks, orders and batches that one
/// thread is making; the reader itself is used by the thread that set `reading_`.
class LoaderEngine {
 public:
  LoaderEngine(std::shared_ptr<Reader> reader,
               LoaderOptions const& options,
               NewBatchMemory new_memory);
  LoaderEngine(LoaderEngine const&) = delete;
  LoaderEngine& operator=(LoaderEngine const&) = delete;
  ~LoaderEngine();

  [[nodiscard]] Schema const& schema() const noexcept { return *schema_; }
  [[nodiscard]] std::optional<Batch> next();
  [[nodiscard]] LoaderPosition position() const;
  void stop();

 private:
  using Lock = std::unique_lock<std::mutex>;

  /// A chunk that a worker is parsing, or that waits for the chunks before it. The end of an epoch
  /// is an entry without a chunk, and rows of another rank are too.
  struct PendingChunk {
    Reader::Position begin;
    std::shared_ptr<Chunk> chunk;
    std::vector<std::int64_t> dealt = {};  ///< at the beginning, of a chunk of this rank
    bool is_of_other = false;              ///< the rows are another rank's
    std::exception_ptr failure;
    bool complete = false;
  };
  struct Slot {
    std::shared_ptr<StagedBatch> batch;
    std::exception_ptr failure;
  };
  /// The memory of batches that are not in use, which outlives the loader if batches do.
  struct FreeMemory {
    std::mutex mutex;
    std::vector<std::unique_ptr<BatchMemory>> memory;
  };

  void work();
  bool make_batch(Lock& lock);
  bool make_order(Lock& lock);
  /// Returns the next task of the reader, empty at the end of the epoch. If tasks are dealt, gives
  /// it to a rank, and says so in `entry`.
  [[nodiscard]] Reader::Task next_task(PendingChunk& entry);
  bool read_chunk(Lock& lock);
  void join_chunks();
  void add_rows(PendingChunk const& entry);
  void end_epoch(std::vector<std::int64_t> const& dealt);
  void fail(std::exception_ptr failure);
  [[nodiscard]] bool may_read() const;
  [[nodiscard]] bool is_at_end() const;
  [[nodiscard]] std::shared_ptr<StagedBatch> new_batch();

  std::shared_ptr<Reader> reader_;
  ReaderUse use_;
  std::shared_ptr<FittedTransforms const> transforms_;  ///< null if there are none
  std::shared_ptr<Schema const> raw_schema_;
  std::shared_ptr<Schema const> schema_;  ///< of the batches
  LoaderOptions options_;
  NewBatchMemory new_memory_;
  std::shared_ptr<FreeMemory> free_ = std::make_shared<FreeMemory>();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  LoaderPosition settings_;
  LoaderPosition given_;  ///< the place behind the last batch that was returned
  WindowMaker windows_;
  bool shuffled_;
  bool reading_ = false;
  /// If tasks are dealt, the rows of each rank between the start of the epoch and the place of the
  /// reader; used by the thread that set `reading_`.
  std::vector<std::int64_t> dealt_;
  bool at_end_of_epoch_ = false;  ///< the reader has given all rows of its epoch
  std::deque<std::shared_ptr<PendingChunk>> pending_;
  std::int64_t rows_per_chunk_ = 0;  ///< of the last chunk
  std::deque<std::shared_ptr<Slot>> slots_;
  std::exception_ptr failure_;  ///< of the reader; comes behind the last complete window
  bool stopping_ = false;
  std::vector<std::jthread> workers_;  ///< declared last, so that the threads are joined first
};

}  // namespace msstream::data::detail
