// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/click_columns.hpp"

#include <msstream/data/chunk.hpp>
#include <msstream/data/reader.hpp>

#include <cstdint>
#include <vector>

namespace msstream::datasets {

struct GeneratedOptions {
  std::int64_t rows = 100'000;
  std::uint64_t seed = 1;
  std::int64_t hotness = 1;
  /// The largest number of distinct values of a field.
  std::int64_t largest_cardinality = 100'000;
  /// The number of labels in a row.
  int tasks = 1;
  /// Keys in each of the 26 fields; empty: `hotness` in all.
  std::vector<std::int64_t> hotness_of_fields = {};
  /// Distinct values of each of the 26 fields; empty: those of Criteo's sample, at most
  /// `largest_cardinality`.
  std::vector<std::int64_t> cardinalities = {};
  /// Whether a key is below the cardinality of its field, and so can be a row of a table. If not,
  /// keys are any 64-bit numbers.
  bool has_small_keys = false;
};

/// Generated rows with the shape of Criteo's (13 continuous and 26 categorical fields) and a
/// relation that a model can learn.
///
/// The popularity of a field's values follows a power law of exponent 1.05, over cardinalities from
/// 3 to 1,000,000. The label is 1 with probability sigmoid(z). z is a sum of a planted weight for
/// each value, planted weights on the continuous fields, and two products that a linear model
/// cannot express. Scoring by z gives an AUC of 0.87. A row depends only on the seed and its
/// number, so that threads and machines can generate any of them; equal bits need the same libm.
class GeneratedData {
 public:
  /// Throws std::invalid_argument for fewer than 0 rows, a hotness or cardinality below 1, lists of
  /// them that are neither empty nor of 26, and tasks outside 1 to 64.
  explicit GeneratedData(GeneratedOptions const& options);

  /// Returns the columns: C1 to C26, keys; `continuous`, which are normalised; Label, Label2 ….
  [[nodiscard]] data::Schema const& schema() const noexcept { return schema_; }
  [[nodiscard]] GeneratedOptions const& options() const noexcept { return options_; }
  [[nodiscard]] std::vector<std::int64_t> const& cardinalities() const noexcept {
    return cardinalities_;
  }

  /// Generates `rows` rows from number `first_row` on. Thread-safe. Numbers beyond
  /// GeneratedOptions::rows are valid, too.
  [[nodiscard]] data::Chunk chunk(std::int64_t first_row, std::int64_t rows) const;

  /// Returns the logit from which the row's label for a task is drawn, which is the best score that
  /// a model could give.
  [[nodiscard]] double true_logit(std::int64_t row, int task = 0) const;

 private:
  [[nodiscard]] std::int64_t key(std::size_t field, std::int64_t rank) const;
  [[nodiscard]] std::int64_t rank(std::int64_t row, std::size_t field, std::int64_t slot) const;
  [[nodiscard]] double continuous(std::int64_t row, std::size_t field) const;

  GeneratedOptions options_;
  std::vector<std::int64_t> hotness_;  ///< of each field
  std::vector<std::int64_t> cardinalities_;
  data::Schema schema_;
};

/// Reads generated rows like those of a file. A position is the number of a row.
class GeneratedReader final : public data::Reader {
 public:
  explicit GeneratedReader(GeneratedOptions const& options) : data_(options) {}

  [[nodiscard]] data::Schema const& schema() const override { return data_.schema(); }
  bool next(data::Chunk& chunk) override;
  [[nodiscard]] Position position() const override { return {.offset = next_row_}; }
  void seek(Position const& position) override { next_row_ = position.offset; }
  [[nodiscard]] Task next_task() override;

 private:
  GeneratedData data_;
  std::int64_t next_row_ = 0;
};

}  // namespace msstream::datasets
