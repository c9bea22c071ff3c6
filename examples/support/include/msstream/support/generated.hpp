// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/support/table.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace msstream::support {

struct GeneratedOptions {
  std::int64_t rows = 100'000;
  std::uint64_t seed = 1;
  std::int64_t hotness = 1;
  /// No field has more distinct values than this.
  std::int64_t largest_cardinality = 100'000;
  /// Labels a row.
  int tasks = 1;
};

/// Rows shaped as Criteo's (13 continuous and 26 categorical fields), with a truth to be found.
///
/// Values of a field are popular by a power law of exponent 1.05, over cardinalities from 3 to
/// 1,000,000. The label is 1 with probability sigmoid(z); z adds a planted weight a value, planted
/// weights on the continuous fields, and two products that a linear model cannot express. Knowing z
/// gives an AUC of 0.87. A row depends on the seed and its number alone, so that threads and
/// machines can generate any of them; the same bits need the same libm.
class GeneratedData {
 public:
  /// Throws std::invalid_argument for fewer than 0 rows, a hotness or cardinality below 1,
  /// tasks outside 1 to 64.
  explicit GeneratedData(GeneratedOptions const& options);

  [[nodiscard]] Schema const& schema() const noexcept { return schema_; }
  [[nodiscard]] GeneratedOptions const& options() const noexcept { return options_; }
  [[nodiscard]] std::vector<std::int64_t> const& cardinalities() const noexcept {
    return cardinalities_;
  }

  /// Thread-safe. Numbers beyond the option `rows` are rows too.
  [[nodiscard]] RowBlock block(std::int64_t first_row, std::int64_t rows) const;

  /// z of the row for a task: the best score that a model could give.
  [[nodiscard]] double true_logit(std::int64_t row, int task = 0) const;

 private:
  [[nodiscard]] std::int64_t rank(std::int64_t row, std::size_t field, std::int64_t slot) const;
  [[nodiscard]] double continuous(std::int64_t row, std::size_t field) const;

  GeneratedOptions options_;
  Schema schema_;
  std::vector<std::int64_t> cardinalities_;
};

/// The options' rows as a source, to be loaded like a file.
class GeneratedSource final : public RowSource {
 public:
  explicit GeneratedSource(GeneratedOptions const& options) : data_(options) {}

  [[nodiscard]] Schema const& schema() const override { return data_.schema(); }
  [[nodiscard]] RowTask next() override;

 private:
  GeneratedData data_;
  std::int64_t next_row_ = 0;
};

}  // namespace msstream::support
