// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/batch.hpp>
#include <msstream/data/reader.hpp>
#include <msstream/data/transforms.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

namespace msstream::data {

/// The treatment of the rows at the end of an epoch that do not fill a batch.
enum class LastBatch : std::uint8_t {
  partial,  ///< a batch with fewer rows
  padded,   ///< a batch with the shape of the others. Rows follow that are no samples: zeros, for
            ///< integers `padding_id`; jagged columns have no values there
  dropped,  ///< no batch. If rows are shuffled, the rows left out differ from epoch to epoch. Of
            ///< groups, the last batch of an epoch that has room for more
};

/// How ranks share the rows of an epoch.
enum class RankShare : std::uint8_t {
  /// Each rank reads and parses all rows, and has its part of each batch. The batches of all ranks
  /// together are those of one rank with larger batches.
  batches,
  /// The rows that a reader parses at once, such as some MiB of text or a row group of Parquet, are
  /// dealt to the rank that has the fewest so far. A rank counts the rows of the others, if the
  /// reader can (Reader::next_counted_task()), and does not parse them.
  tasks,
};

/// As LoaderOptions::shuffle_rows, all rows of an epoch.
inline constexpr std::int64_t kWholeEpoch = std::numeric_limits<std::int64_t>::max();

struct LoaderOptions {
  std::int64_t batch_size = 512;  ///< rows in a batch of one rank
  std::int64_t epochs = 1;        ///< 0 gives no batch
  /// The number of consecutive rows that are shuffled among each other, rounded up to whole batches
  /// of all ranks. 0: the rows keep their order. A window of rows is in memory while it is used,
  /// and up to two more that are read ahead. If an epoch is no longer than a window, its rows stay
  /// in memory, and are read once.
  std::int64_t shuffle_rows = 0;
  std::uint64_t seed = 1;                     ///< of the order of rows
  LastBatch last_batch = LastBatch::partial;  ///< of an epoch, with fewer rows
  /// The integers in the rows that LastBatch::padded adds. -1 is no row of a table, so that lookups
  /// find none and updates move none; lookups with OutOfRange::trap would report it. A row that
  /// exists would be looked up, and moved by rules with momentum or decay.
  std::int64_t padding_id = -1;
  /// The number of this process among those that share the rows, and their count. Rows are divided
  /// into batches of ranks * batch_size; rank r gets the r-th part of each. So all ranks have
  /// equally many batches, which together are the batches of one rank with ranks * batch_size rows.
  /// `share` has another way.
  int rank = 0;
  int ranks = 1;  ///< at least 1; `rank` is in [0, ranks)
  /// With RankShare::tasks, each rank divides, and shuffles, its own rows, in batches of batch_size
  /// and windows of 1/ranks of shuffle_rows. Each row is one rank's. All ranks have as many batches
  /// as the one with the most rows; in the last ones, others have fewer rows, or none. A position
  /// is of one rank. LastBatch::dropped and `group` are refused.
  RankShare share = RankShare::batches;
  /// The name of a column of integers or hashed strings, such as the query of lists: consecutive
  /// rows of equal values, with transforms applied, are a group, which stays together and in its
  /// order. Batches have whole groups, as many as fit into batch_size, so most have fewer rows.
  /// shuffle_rows shuffles groups. A rank has whole groups; the last batch of a window may have
  /// none for some. A larger group is a DataError. Empty: rows are alone.
  std::string group = {};
  int threads = 2;        ///< that parse and gather rows, at least 1
  int batches_ahead = 4;  ///< batches that are made before they are requested, at least 1
  /// The batches of a DeviceLoader on which work may be unfinished when next() gives another, at
  /// least 1.
  int unfinished_batches = 2;
  /// The transforms that are applied to the rows; null if no column of the reader states
  /// transforms. The loader keeps what they have learned when it is made.
  std::optional<Transforms> transforms = {};
  /// The place to continue from; null: the start of the data.
  std::optional<LoaderPosition> start = {};
};

namespace detail {

class LoaderEngine;
using NewBatchMemory = std::function<std::unique_ptr<BatchMemory>()>;

}  // namespace detail

/// Makes batches of the rows of a reader, ahead of their use, in worker threads.
///
/// The batches depend on the rows, the seed, the sizes and the ranks alone, and not on the number
/// of threads or the chunks of the reader. The order of an epoch depends on the seed and the epoch.
///
/// next() and stop() may be called from different threads. The destructor waits for the calls of
/// the reader that are in progress.
class Loader {
 public:
  /// Starts the threads. The loader owns the reader, or shares it if the caller keeps a pointer;
  /// nothing else may use the reader while the loader exists. Throws std::invalid_argument for
  /// options outside their ranges, for a position of other settings or another part of the rows,
  /// and for transforms that are not fitted or not those that the reader's columns state.
  explicit Loader(std::shared_ptr<Reader> reader, LoaderOptions const& options = {});
  /// Uses a reader that the caller owns, and that outlives the loader.
  explicit Loader(Reader& reader, LoaderOptions const& options = {});
  /// Makes batches in memory of the caller's. For use by the library only.
  Loader(std::shared_ptr<Reader> reader,
         LoaderOptions const& options,
         detail::NewBatchMemory new_memory);
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;
  ~Loader();

  /// Returns the columns of the batches: those of the reader, with transforms applied.
  [[nodiscard]] Schema const& schema() const noexcept;

  /// Returns the next batch, or null after the last one and after stop(). Blocks until the batch is
  /// made. If the reader threw, the batches of complete windows in front of the error come first;
  /// then every call rethrows the exception. Throws DataError if an epoch has no batch.
  [[nodiscard]] std::optional<Batch> next();

  /// Returns the place behind the last batch that next() has returned, as LoaderOptions::start.
  [[nodiscard]] LoaderPosition position() const;

  /// Ends the making of batches. A call of next() that is waiting returns null.
  void stop();

 private:
  std::unique_ptr<detail::LoaderEngine> engine_;
};

}  // namespace msstream::data
