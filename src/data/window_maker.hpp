// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/row_window.hpp"

#include <msstream/data/loader.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

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

/// The rows of a batch, by their places in a window.
struct Places {
  std::int64_t first;
  std::int64_t count;
};

/// Divides the rows of the reader's chunks, given in their order, into windows. Not synchronised.
class WindowMaker {
 public:
  /// The options of a loader that decide about windows.
  struct Rules {
    std::int64_t epochs;
    LastBatch last_batch;
    std::int64_t ranks;
    bool shuffled;
    bool deals_tasks;                       ///< the rows are those of one rank alone
    std::optional<std::size_t> group = {};  ///< the column whose equal values keep rows together
  };
  /// `settings` has the sizes and the place to start from.
  WindowMaker(LoaderPosition const& settings, Rules const& rules)
      : next_(settings),
        rules_(rules),
        batch_rows_(rules.deals_tasks ? settings.batch_size / rules.ranks : settings.batch_size),
        batches_per_window_(settings.window_rows / settings.batch_size),
        to_skip_(settings.skipped),
        // An epoch that is resumed had batches before.
        batches_of_epoch_(settings.window > 0 ? 1 : 0) {}

  /// Adds rows that begin at the place `begin` of the reader. `dealt` is LoaderPosition::dealt
  /// there. Throws DataError for a group of more rows than a batch of a rank.
  void add(std::shared_ptr<Chunk const> chunk,
           Reader::Position const& begin,
           std::vector<std::int64_t> const& dealt = {});
  /// Ends an epoch, in which the ranks were dealt so many rows if tasks are dealt. Throws DataError
  /// if it had no batch.
  void end_epoch(std::vector<std::int64_t> const& dealt = {});

  [[nodiscard]] std::deque<std::shared_ptr<ReadyWindow>>& ready() noexcept { return ready_; }
  [[nodiscard]] bool is_over() const noexcept { return next_.epoch >= rules_.epochs; }
  /// Returns whether all rows of an epoch are in memory, so that nothing more needs to be read.
  [[nodiscard]] bool has_all_rows() const noexcept { return all_rows_ != nullptr; }
  /// Adds the window of the next epoch, whose rows are in memory.
  void repeat();
  [[nodiscard]] bool ready_is_empty() const noexcept { return ready_.empty(); }
  /// Returns the number of rows of which no batch is being made yet.
  [[nodiscard]] std::int64_t rows_ahead() const noexcept;
  /// Returns the rows of a rank in a batch of a window. Thread-safe.
  [[nodiscard]] Places places_of(ReadyWindow const& window,
                                 std::int64_t batch,
                                 std::int64_t rank) const noexcept;

 private:
  /// Rows of the group whose end is not known yet.
  struct OpenGroup {
    std::vector<RowWindow::Part> parts;
    std::int64_t rows = 0;
    std::int64_t value = 0;
  };

  void add_groups(std::shared_ptr<Chunk const> const& chunk, Reader::Position const& begin);
  /// Adds the open group to the window that is being built, or to the next one if it has no room.
  void close_group();
  void append(RowWindow::Part part, std::int64_t rows);
  /// Makes the order and the cuts of a window of groups, and returns its batches.
  [[nodiscard]] std::int64_t pack(RowWindow& rows, bool ends_epoch) const;
  /// Completes the window that is being built, with the number of batches that all ranks have at
  /// least. The next one begins `rows_of_chunk` rows behind the place `chunk`, unless the epoch
  /// ends.
  std::shared_ptr<ReadyWindow> finish(Reader::Position const& chunk,
                                      std::int64_t rows_of_chunk,
                                      bool ends_epoch,
                                      std::int64_t least_batches = 0);
  static void begin_epoch(LoaderPosition& position);

  LoaderPosition next_;  ///< the start of the window that is being built
  Rules rules_;
  std::int64_t const batch_rows_;  ///< in a batch, of all ranks that share it
  std::int64_t const batches_per_window_;
  std::int64_t to_skip_;
  std::int64_t batches_of_epoch_;
  RowWindow building_;
  OpenGroup open_;
  std::int64_t parts_used_ = 0;  ///< of batches, by the groups of the window that is being built
  std::int64_t rows_of_part_ = 0;
  std::vector<std::int64_t> dealt_in_epoch_;  ///< in the epoch of which all rows are in memory
  std::deque<std::shared_ptr<ReadyWindow>> ready_;
  std::shared_ptr<ReadyWindow> all_rows_;
};

}  // namespace msstream::data::detail
