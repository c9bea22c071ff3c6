// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/reader.hpp>
#include <msstream/data/schema.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::data {

/// A place between two batches of a Loader, from which another loader, in this process or a later
/// one, continues with the same batches.
struct LoaderPosition {
  std::int64_t epoch = 0;    ///< number of the epoch, from 0
  std::int64_t window = 0;   ///< number of the window of shuffled rows in its epoch
  std::int64_t batch = 0;    ///< batches of that window that come before the place
  std::int64_t batches = 0;  ///< batches since the start of training
  std::int64_t samples = 0;  ///< rows of all ranks since the start of training, before the window
  Reader::Position reader;   ///< a place at or before the window's first row
  std::int64_t skipped = 0;  ///< rows between that place and the window's first row
  // The settings that determine the batches. A loader refuses a position of other ones.
  std::uint64_t seed = 0;        ///< LoaderOptions::seed
  std::int64_t window_rows = 0;  ///< rows of a shuffled window
  std::int64_t batch_size = 0;   ///< of all ranks together
  std::uint64_t columns = 0;     ///< a hash of the reader's columns, with the transforms they state
  std::uint64_t transforms = 0;  ///< a hash of what the transforms have learned; 0 without any
  /// With RankShare::tasks, the rows of each rank between the start of the epoch and `reader`;
  /// empty if there are none.
  std::vector<std::int64_t> dealt = {};
  /// The source of the rows, by Reader::source(). Without files, as in the text of former versions,
  /// it fits any.
  Reader::Source source = {};
  /// The part of the rows, by Reader::part(), with what LoaderOptions say about groups and shares
  /// of ranks. Empty in the text of former versions, which fits any.
  std::string part = {};

  /// Returns the position that to_string() has written. Throws std::invalid_argument for another
  /// text.
  [[nodiscard]] static LoaderPosition parse(std::string_view text);
  friend bool operator==(LoaderPosition const&, LoaderPosition const&) = default;
};

/// Returns the position as one line of words, such as "epoch=1 window=0 …".
[[nodiscard]] std::string to_string(LoaderPosition const& position);

namespace detail {

/// The memory of one batch, which grows as needed.
class BatchMemory {
 public:
  BatchMemory() = default;
  BatchMemory(BatchMemory const&) = delete;
  BatchMemory& operator=(BatchMemory const&) = delete;
  virtual ~BatchMemory() = default;
  /// Return memory for `count` elements, whose former contents may be lost.
  virtual std::int64_t* ints(std::size_t count) = 0;
  virtual float* floats(std::size_t count) = 0;
};

/// The place of a column in the memory of a batch.
struct BatchPlace {
  std::size_t first = 0;  ///< index of the first value, among the floats or the integers
  std::size_t count = 0;
  std::size_t first_offset =
      0;  ///< index of the first offset of a jagged column, among the integers
};

/// A batch in memory. The integers are those of all columns that are not jagged, in their order,
/// then the offsets and then the values of jagged ones, and then the offsets of groups; floats
/// likewise, and then the mask.
struct StagedBatch {
  std::shared_ptr<Schema const> schema;
  std::unique_ptr<BatchMemory> memory;
  std::vector<BatchPlace> places;
  std::int64_t const* ints = nullptr;
  float const* floats = nullptr;
  std::size_t int_count = 0;
  std::size_t float_count = 0;
  std::size_t mask_first = 0;  ///< index of the first value of the mask, among the floats
  BatchPlace groups;           ///< of the offsets of groups; none if rows are in no groups
  std::int64_t rows = 0;
  std::int64_t shape_rows = 0;
  std::int64_t first_sample = 0;
  LoaderPosition before;
  LoaderPosition after;
};

/// Returns the place of the offsets of groups. Throws std::invalid_argument if there are none.
[[nodiscard]] BatchPlace const& require_groups(BatchPlace const& groups);

/// Returns the place of the values of all columns from `first` to `last` of the schema that have
/// such values, one column after the other. Throws std::invalid_argument for columns that have
/// others, for jagged ones, and if `last` is in front of `first`.
[[nodiscard]] BatchPlace place_of(Schema const& schema,
                                  std::vector<BatchPlace> const& places,
                                  std::string_view first,
                                  std::string_view last,
                                  ColumnPart wanted);

}  // namespace detail

/// A batch of rows in host memory. Copies share the memory, which returns to the loader with the
/// last of them; it may outlive the loader.
class Batch {
 public:
  explicit Batch(std::shared_ptr<detail::StagedBatch const> staged) : staged_(std::move(staged)) {}

  /// Returns the columns, after the transforms.
  [[nodiscard]] Schema const& schema() const noexcept { return *staged_->schema; }
  /// Returns the number of rows of this rank. May be 0, in the last batch of an epoch of several
  /// ranks.
  [[nodiscard]] std::int64_t rows() const noexcept { return staged_->rows; }
  /// Returns the number of rows that the columns have: rows(), or the rows of a full batch with
  /// LastBatch::padded.
  [[nodiscard]] std::int64_t shape_rows() const noexcept { return staged_->shape_rows; }
  /// Returns the number of the batch since the start of training, which is the same on all ranks.
  [[nodiscard]] std::int64_t index() const noexcept { return staged_->before.batches; }
  /// Returns the number of the batch's epoch, from 0.
  [[nodiscard]] std::int64_t epoch() const noexcept { return staged_->before.epoch; }
  /// Returns the number of the batch's first row among the rows of all ranks since the start of
  /// training. The other rows follow it.
  [[nodiscard]] std::int64_t first_sample() const noexcept { return staged_->first_sample; }
  /// Returns the position behind the batch.
  [[nodiscard]] LoaderPosition const& after() const noexcept { return staged_->after; }

  /// Returns the values of a float32 column: [shape_rows(), width], or all values of a jagged one.
  /// Throws std::invalid_argument for a column of another type, and if there is no such column.
  [[nodiscard]] std::span<float const> floats(std::string_view column) const;
  /// Returns the floats of the columns from `first` to `last` of the schema, one column after the
  /// other; columns of integers between them are left out. Throws std::invalid_argument for other
  /// and for jagged columns.
  [[nodiscard]] std::span<float const> floats(std::string_view first, std::string_view last) const;
  /// Returns the values of a column of type int64 or hashed: [shape_rows(), width], or all values
  /// of a jagged one. Throws std::invalid_argument for a column of another type, and if there is no
  /// such column.
  [[nodiscard]] std::span<std::int64_t const> ints(std::string_view column) const;
  /// Returns the integers of the columns from `first` to `last` of the schema, one column after the
  /// other; columns of floats between them are left out. Throws std::invalid_argument for other and
  /// for jagged columns.
  [[nodiscard]] std::span<std::int64_t const> ints(std::string_view first,
                                                   std::string_view last) const;
  /// Returns the offsets of a jagged column, [shape_rows() + 1]. Throws std::invalid_argument for
  /// another column, and if there is no such column.
  [[nodiscard]] std::span<std::int64_t const> offsets(std::string_view column) const;
  /// Returns the offsets of the groups of LoaderOptions::group, [groups + 1]: group i has the rows
  /// [offsets[i], offsets[i + 1]). With LastBatch::padded [shape_rows() + 1]: behind the groups
  /// comes one of the rows that fill up the batch, and then empty ones. Throws
  /// std::invalid_argument for a loader without groups.
  [[nodiscard]] std::span<std::int64_t const> groups() const;
  /// Returns 1 for each of the rows() rows, and 0 for the zeros that follow them:
  /// [shape_rows()].
  [[nodiscard]] std::span<float const> mask() const noexcept {
    return {staged_->floats + staged_->mask_first, static_cast<std::size_t>(staged_->shape_rows)};
  }

  [[nodiscard]] detail::StagedBatch const& staged() const noexcept { return *staged_; }

 private:
  std::shared_ptr<detail::StagedBatch const> staged_;
};

}  // namespace msstream::data
