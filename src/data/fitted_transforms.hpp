// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/chunk_access.hpp"
#include "data/row_error.hpp"
#include "data/vocabulary.hpp"

#include <msstream/base/detail/host_state.hpp>
#include <msstream/data/transforms.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::data::detail {

/// Returns the row of a value of a column.
[[nodiscard]] std::int64_t row_of(Chunk const& chunk, std::size_t column, std::size_t value);

/// Calls `function(number, i, slot)` for each value i of a column with steps of numbers, of
/// whatever type. Throws RowError for a DataError of the function.
template <class Function>
void for_each_number(Chunk const& chunk, std::size_t column, Function&& function) {
  auto const& of = chunk.schema().columns()[column];
  auto const width = static_cast<std::size_t>(std::max<std::int64_t>(1, of.width));
  auto const visit = [&](auto const& values) {
    std::size_t i = 0;
    try {
      for (std::size_t slot = 0; i < values.size(); ++i, slot = slot + 1 < width ? slot + 1 : 0) {
        function(static_cast<double>(values[i]), i, slot);
      }
    } catch (DataError const& error) {
      throw RowError(ChunkAccess::number_of(chunk, row_of(chunk, column, i)), error.what());
    }
  };
  if (!of.is_float()) {
    visit(chunk.ints(column));
  } else if (!chunk.doubles(column).empty()) {
    visit(chunk.doubles(column));
  } else {
    visit(chunk.floats(column));
  }
}

/// A column with transforms, and what they have learned.
struct FittedColumn {
  Column raw;
  std::vector<double> means;       ///< of normalize(), one for each value in a row
  std::vector<double> deviations;  ///< likewise
  std::vector<double> boundaries;  ///< of bucketize() and quantiles(), finite, which ascend
  std::shared_ptr<Vocabulary const> vocabulary;

  /// Takes a column that has learned nothing yet.
  explicit FittedColumn(Column column);

  /// Returns what the steps before number `end` make of a number.
  [[nodiscard]] double number(double value, std::size_t slot, std::size_t end) const;
  [[nodiscard]] std::int64_t id(std::int64_t key) const;
  /// Returns the id that the last step makes of a number, given what the steps in front of it made.
  /// Throws DataError if it has none.
  [[nodiscard]] std::int64_t id_of_number(double value) const;
  [[nodiscard]] std::int64_t id_count() const;
  /// Returns the result of a number, rounded once. Throws DataError if float32 does not have it.
  [[nodiscard]] float float_of(double value, std::size_t slot) const;
  /// Shortens the rows of a column of a chunk, if a step says so.
  void shorten(Chunk& chunk, std::size_t column) const;
  /// Transforms the values of a column of a chunk.
  void apply(Chunk& chunk, std::size_t column) const;
};

/// The transforms of all columns, complete.
class FittedTransforms {
 public:
  explicit FittedTransforms(std::vector<FittedColumn> columns) : columns_(std::move(columns)) {}

  [[nodiscard]] std::vector<FittedColumn> const& columns() const noexcept { return columns_; }
  /// Returns the column; null if it has no transforms.
  [[nodiscard]] FittedColumn const* find(std::string_view name) const;

  /// Returns the schema of rows whose transforms have been applied. Throws std::invalid_argument if
  /// columns of the schema state other transforms or types.
  [[nodiscard]] Schema result_of(Schema const& raw) const;
  /// Returns a hash of the columns and what they have learned, which is not 0.
  [[nodiscard]] std::uint64_t fingerprint() const;
  /// Transforms rows whose schema result_of() has accepted, and gives them the resulting schema.
  void apply(Chunk& chunk, std::shared_ptr<Schema const> result) const;

 private:
  std::vector<FittedColumn> columns_;
};

/// Returns the name under which the vocabulary of a column is saved: its own, or the column's.
[[nodiscard]] std::string const& vocabulary_name(Column const& column);
/// Returns the columns that have transforms. Throws std::invalid_argument for steps that their
/// column does not have, that are not in their order, or whose options are outside their ranges.
[[nodiscard]] std::vector<Column> stated_by(Schema const& schema);
/// Returns a hash of the columns.
[[nodiscard]] std::uint64_t fingerprint_of(std::vector<Column> const& columns);
/// Returns what the column's transforms are, as text, one for each step.
[[nodiscard]] std::vector<std::string> steps_of(Column const& column);
/// Returns the transform of the column that has to be fitted; null if there is none.
[[nodiscard]] Transform const* fitted_step(Column const& column);

/// The state that copies of Transforms share: what is stated, and what was learned.
class TransformState final : public msstream::detail::HostState {
 public:
  explicit TransformState(std::vector<Column> columns);

  void fit(Reader& reader, FitOptions const& options);
  [[nodiscard]] std::vector<Column> const& columns() const noexcept { return columns_; }
  [[nodiscard]] std::shared_ptr<FittedTransforms const> const& fitted() const noexcept {
    return fitted_;
  }
  /// Returns what was learned. Throws std::invalid_argument if nothing was yet.
  [[nodiscard]] std::shared_ptr<FittedTransforms const> const& require_fitted() const;

  [[nodiscard]] std::vector<Array> arrays() const override;
  [[nodiscard]] std::string first_name() const override { return "transforms/columns"; }
  [[nodiscard]] std::string prefix() const override { return "transforms/"; }
  [[nodiscard]] std::function<void()> read(Find const& find) override;

 private:
  std::vector<Column> columns_;
  std::shared_ptr<FittedTransforms const> fitted_;
};

}  // namespace msstream::data::detail
