// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/row_window.hpp"

#include <msstream/data/loader.hpp>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

namespace msstream::data::detail {

/// A window that is complete, with what the positions of its batches need.
struct ReadyWindow {
  RowWindow rows;
  LoaderPosition start;  ///< in front of the window's first batch
  LoaderPosition end;    ///< behind its last batch
  std::int64_t batches = 0;
  std::int64_t next_batch = 0;  ///< the batch of the window that is made next
  /// The states of the order: a thread makes it once, before the first batch.
  enum class Order : std::uint8_t { missing, in_progress, complete };
  Order order = Order::missing;
};

/// Divides the rows of the reader's chunks, given in their order, into windows. Not synchronised.
class WindowMaker {
 public:
  /// `settings` has the sizes and the place to start from.
  WindowMaker(LoaderPosition const& settings, std::int64_t epochs, LastBatch last_batch)
      : next_(settings),
        epochs_(epochs),
        last_batch_(last_batch),
        to_skip_(settings.skipped),
        // An epoch that is resumed had batches before.
        batches_of_epoch_(settings.window > 0 ? 1 : 0) {}

  /// Adds rows that begin at the place `begin` of the reader.
  void add(std::shared_ptr<Chunk const> chunk, Reader::Position const& begin);
  /// Ends an epoch. Throws DataError if it had no batch.
  void end_epoch();

  [[nodiscard]] std::deque<std::shared_ptr<ReadyWindow>>& ready() noexcept { return ready_; }
  [[nodiscard]] bool is_over() const noexcept { return next_.epoch >= epochs_; }
  /// Returns whether all rows of an epoch are in memory, so that nothing more needs to be read.
  [[nodiscard]] bool has_all_rows() const noexcept { return all_rows_ != nullptr; }
  /// Adds the window of the next epoch, whose rows are in memory.
  void repeat();
  [[nodiscard]] bool ready_is_empty() const noexcept { return ready_.empty(); }
  /// Returns the number of rows of which no batch is being made yet.
  [[nodiscard]] std::int64_t rows_ahead() const noexcept;

 private:
  /// Completes the window that is being built. The next one begins `rows_of_chunk` rows behind the
  /// place `chunk`, unless the epoch ends.
  std::shared_ptr<ReadyWindow> finish(Reader::Position const& chunk,
                                      std::int64_t rows_of_chunk,
                                      bool ends_epoch);
  static void begin_epoch(LoaderPosition& position);

  LoaderPosition next_;  ///< the start of the window that is being built
  std::int64_t epochs_;
  LastBatch last_batch_;
  std::int64_t to_skip_;
  std::int64_t batches_of_epoch_;
  RowWindow building_;
  std::deque<std::shared_ptr<ReadyWindow>> ready_;
  std::shared_ptr<ReadyWindow> all_rows_;
};

}  // namespace msstream::data::detail
