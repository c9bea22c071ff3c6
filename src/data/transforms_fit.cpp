// SPDX-License-Identifier: Apache-2.0
#include "data/fitted_transforms.hpp"
#include "data/ordered_rows.hpp"
#include "data/reader_use.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/data_error.hpp>
#include <msstream/data/reader.hpp>
#include <msstream/data/transforms.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace msstream::data::detail {

namespace {

/// The counts of the values of a vocabulary, which several columns may share, and what it becomes.
struct VocabularyFit {
  VocabularyCounts counts;
  std::shared_ptr<Vocabulary const> made;

  std::shared_ptr<Vocabulary const> const& result(Transform const& step) {
    if (!made) {
      made = std::make_shared<Vocabulary const>(counts.vocabulary(step.min_count, step.max_values));
    }
    return made;
  }
};

/// Returns the numbers that divide values into `buckets` buckets of equally many.
std::vector<double> quantiles_of(std::vector<double> values, std::int64_t buckets) {
  std::ranges::sort(values);
  std::vector<double> quantiles;
  auto const count = static_cast<double>(values.size());
  for (std::int64_t i = 1; i < buckets && !values.empty(); ++i) {
    auto const below = count * static_cast<double>(i) / static_cast<double>(buckets);
    auto const quantile = values[static_cast<std::size_t>(below)];
    // Nothing is below the smallest value, and the bucket in front of it would be empty.
    if (quantile > (quantiles.empty() ? values.front() : quantiles.back())) {
      quantiles.push_back(quantile);
    }
  }
  return quantiles;
}

/// The learning of a column from the rows.
class ColumnFit {
 public:
  ColumnFit(Column const& column, std::shared_ptr<VocabularyFit> vocabulary)
      : fitted_(column),
        step_(fitted_step(fitted_.raw)),
        vocabulary_(std::move(vocabulary)),
        moments_(static_cast<std::size_t>(std::max<std::int64_t>(1, column.width))) {}
  ColumnFit(ColumnFit const&) = delete;
  ColumnFit& operator=(ColumnFit const&) = delete;

  /// Returns whether the fit needs the strings behind the keys.
  [[nodiscard]] bool needs_words() const {
    return has(Transform::Kind::vocabulary) && fitted_.raw.type == ColumnType::hashed;
  }
  void add(Chunk& chunk, std::size_t column) {
    if (step_ == nullptr) {
      return;
    }
    fitted_.shorten(chunk, column);
    if (has(Transform::Kind::vocabulary)) {
      auto const* const words = chunk.words(column);
      for (auto const key : chunk.ints(column)) {
        vocabulary_->counts.add(key, words);
      }
      return;
    }
    auto const before = static_cast<std::size_t>(step_ - fitted_.raw.transforms.data());
    for_each_number(chunk, column, [&](double value, std::size_t, std::size_t slot) {
      auto const number = fitted_.number(value, slot, before);
      if (has(Transform::Kind::normalize)) {
        moments_[slot].add(number);
      } else if (!std::isnan(number)) {
        numbers_.push_back(number);
      }
    });
  }

  [[nodiscard]] FittedColumn result() {
    if (has(Transform::Kind::vocabulary)) {
      fitted_.vocabulary = vocabulary_->result(*step_);
    } else if (has(Transform::Kind::quantiles)) {
      fitted_.boundaries = quantiles_of(std::move(numbers_), step_->buckets);
      if (!std::ranges::all_of(fitted_.boundaries, [](double x) { return std::isfinite(x); })) {
        throw DataError(fmt::format("column '{}': {} found infinite numbers; expected finite ones",
                                    fitted_.raw.name,
                                    to_string(*step_)));
      }
    } else if (step_ != nullptr) {
      take_moments();
    }
    return fitted_;
  }

 private:
  /// Sums of values without the first one, which keeps their squares small.
  struct Moments {
    double first = 0;
    double sum = 0;
    double squares = 0;
    std::int64_t count = 0;

    void add(double value) {
      if (std::isnan(value)) {
        return;
      }
      first = count == 0 ? value : first;
      double const rest = value - first;
      sum += rest;
      squares += rest * rest;
      ++count;
    }
    [[nodiscard]] std::pair<double, double> result() const {
      if (count == 0) {
        return {0.0, 0.0};
      }
      auto const n = static_cast<double>(count);
      return {first + sum / n, std::sqrt(std::max(0.0, (squares - sum * (sum / n)) / n))};
    }
  };

  [[nodiscard]] bool has(Transform::Kind kind) const {
    return step_ != nullptr && step_->kind == kind;
  }
  void take_moments() {
    for (auto const& moments : moments_) {
      auto const [mean, deviation] = moments.result();
      if (!std::isfinite(mean) || !std::isfinite(deviation)) {
        throw DataError(fmt::format(
            "column '{}': normalize() found the mean {} and the deviation {}; expected finite "
            "numbers",
            fitted_.raw.name,
            mean,
            deviation));
      }
      fitted_.means.push_back(mean);
      fitted_.deviations.push_back(deviation);
    }
  }

  FittedColumn fitted_;
  Transform const* step_;
  std::shared_ptr<VocabularyFit> vocabulary_;
  std::vector<Moments> moments_;
  std::vector<double> numbers_;  ///< all of the column, for their quantiles
};

}  // namespace

void TransformState::fit(Reader& reader, FitOptions const& options) {
  require(options.threads >= 1,
          "transforms: fit() with {} threads; expected at least 1",
          options.threads);
  require(
      options.max_rows >= 0, "transforms: fit() to {} rows; expected at least 0", options.max_rows);
  std::vector<FittedColumn> unfitted;
  std::map<std::string_view, std::shared_ptr<VocabularyFit>> vocabularies;
  std::vector<std::unique_ptr<ColumnFit>> fits;
  std::vector<std::size_t> places;
  for (auto const& column : columns_) {
    auto& vocabulary = vocabularies[vocabulary_name(column)];
    vocabulary = vocabulary ? vocabulary : std::make_shared<VocabularyFit>();
    fits.push_back(std::make_unique<ColumnFit>(column, vocabulary));
    unfitted.emplace_back(column);
    places.push_back(reader.schema().index_of(column.name));
  }
  static_cast<void>(FittedTransforms(std::move(unfitted)).result_of(reader.schema()));
  ReaderUse const use(reader, "Transforms::fit()");
  std::int64_t row_count = 0;
  try {
    reader.seek({});
    for (std::size_t i = 0; i < fits.size(); ++i) {
      if (fits[i]->needs_words()) {
        reader.words_.push_back(places[i]);
      }
    }
    OrderedRows rows(
        reader,
        reader.words_,
        [&](Chunk& chunk) {
          for (std::size_t i = 0; i < fits.size(); ++i) {
            fits[i]->add(chunk, places[i]);
          }
        },
        options.max_rows);
    rows.read(options.threads);
    rows.rethrow();
    row_count = rows.rows();
  } catch (...) {
    reader.words_.clear();
    try {
      reader.seek({});
    } catch (...) {  // The first error is the one to report.
    }
    throw;
  }
  reader.words_.clear();
  reader.seek({});
  if (row_count == 0) {
    throw DataError(
        fmt::format("{}: 0 rows; expected at least 1, to fit transforms to", reader.file_name(0)));
  }
  std::vector<FittedColumn> fitted;
  for (auto const& fit : fits) {
    fitted.push_back(fit->result());
  }
  fitted_ = std::make_shared<FittedTransforms>(std::move(fitted));
}

}  // namespace msstream::data::detail
