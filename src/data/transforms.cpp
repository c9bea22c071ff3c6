// SPDX-License-Identifier: Apache-2.0
#include "data/fitted_transforms.hpp"
#include "data/ordered_rows.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/data_error.hpp>
#include <msstream/data/reader.hpp>
#include <msstream/data/transforms.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace msstream::data {

namespace detail {

namespace {

void check_step(Column const& column, Transform const& step) {
  using Kind = Transform::Kind;
  bool const makes_ids = step.makes_ids();
  bool const fits = makes_ids                         ? !column.is_float()
                    : step.kind == Kind::fill_missing ? column.is_float()
                                                      : column.type != ColumnType::hashed;
  require(fits,
          "column '{}' has values of type {}; {} is for {}",
          column.name,
          to_string(column.type),
          to_string(step),
          makes_ids                         ? "integers and strings"
          : step.kind == Kind::fill_missing ? "numbers of type float32"
                                            : "numbers");
  require(!makes_ids || column.transforms.size() == 1,
          "column '{}' has {} transforms; expected {} alone",
          column.name,
          column.transforms.size(),
          to_string(step));
  require(!makes_ids || step.buckets >= 1,
          "column '{}': {}; expected at least 1 bucket",
          column.name,
          to_string(step));
  require(step.kind != Kind::vocabulary || (step.min_count >= 1 && step.max_values >= 0),
          "column '{}': {}; expected a min_count of at least 1, and max_values of at least 0",
          column.name,
          to_string(step));
  require(step.kind != Kind::clip || step.low <= step.high,
          "column '{}': {}; expected a lower bound, and one that is not below it",
          column.name,
          to_string(step));
  require(step.kind != Kind::fill_missing || std::isfinite(step.low),
          "column '{}': {}; expected a finite number",
          column.name,
          to_string(step));
}

/// Returns the columns that have transforms.
std::vector<Column> stated_by(Schema const& schema) {
  std::vector<Column> stated;
  for (auto const& column : schema.columns()) {
    for (auto const& step : column.transforms) {
      check_step(column, step);
    }
    require(
        std::ranges::count(column.transforms, Transform::Kind::normalize, &Transform::kind) <= 1,
        "column '{}' has normalize() more than once",
        column.name);
    if (!column.transforms.empty()) {
      stated.push_back(column);
    }
  }
  return stated;
}

/// The learning of a column from the rows.
class ColumnFit {
 public:
  explicit ColumnFit(Column const& column)
      : fitted_{.raw = column, .means = {}, .deviations = {}, .vocabulary = nullptr},
        step_(fitted_step(fitted_.raw)),
        moments_(static_cast<std::size_t>(std::max<std::int64_t>(1, column.width))) {}
  ColumnFit(ColumnFit const&) = delete;
  ColumnFit& operator=(ColumnFit const&) = delete;

  /// Returns whether the fit needs the strings behind the keys.
  [[nodiscard]] bool needs_words() const {
    return step_ != nullptr && step_->kind == Transform::Kind::vocabulary &&
           fitted_.raw.type == ColumnType::hashed;
  }
  void add(Chunk& chunk, std::size_t column) {
    if (step_ == nullptr) {
      return;
    }
    if (step_->kind == Transform::Kind::vocabulary) {
      auto const* const words = chunk.words(column);
      for (auto const key : chunk.ints(column)) {
        counts_.add(key, words);
      }
      return;
    }
    auto const before = static_cast<std::size_t>(step_ - fitted_.raw.transforms.data());
    for_each_number(chunk, column, [&](double value, std::size_t, std::size_t slot) {
      moments_[slot].add(fitted_.number(value, slot, before));
    });
  }

  [[nodiscard]] FittedColumn result() {
    if (step_ != nullptr && step_->kind == Transform::Kind::vocabulary) {
      fitted_.vocabulary = std::make_shared<Vocabulary const>(
          counts_.vocabulary(step_->min_count, step_->max_values));
    } else if (step_ != nullptr) {
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

  FittedColumn fitted_;
  Transform const* step_;
  VocabularyCounts counts_;
  std::vector<Moments> moments_;
};

}  // namespace

TransformState::TransformState(std::vector<Column> columns) : columns_(std::move(columns)) {
  bool const complete =
      std::ranges::all_of(columns_, [](auto const& column) { return !fitted_step(column); });
  if (complete) {
    std::vector<FittedColumn> fitted;
    for (auto const& column : columns_) {
      fitted.push_back({.raw = column, .means = {}, .deviations = {}, .vocabulary = nullptr});
    }
    fitted_ = std::make_shared<FittedTransforms>(std::move(fitted));
  }
}

std::shared_ptr<FittedTransforms const> const& TransformState::require_fitted() const {
  require(fitted_ != nullptr,
          "the transforms have not been fitted: expected fit() or checkpoint::load() first");
  return fitted_;
}

void TransformState::fit(Reader& reader, int threads) {
  require(threads >= 1, "transforms: fit() with {} threads; expected at least 1", threads);
  std::vector<FittedColumn> unfitted;
  std::vector<std::unique_ptr<ColumnFit>> fits;
  std::vector<std::size_t> places;
  for (auto const& column : columns_) {
    fits.push_back(std::make_unique<ColumnFit>(column));
    unfitted.push_back({.raw = column, .means = {}, .deviations = {}, .vocabulary = nullptr});
    places.push_back(reader.schema().index_of(column.name));
  }
  static_cast<void>(FittedTransforms(std::move(unfitted)).result_of(reader.schema()));
  reader.seek({});
  for (std::size_t i = 0; i < fits.size(); ++i) {
    if (fits[i]->needs_words()) {
      reader.words_.push_back(places[i]);
    }
  }
  OrderedRows rows(reader, reader.words_, [&](Chunk& chunk) {
    for (std::size_t i = 0; i < fits.size(); ++i) {
      fits[i]->add(chunk, places[i]);
    }
  });
  rows.read(threads);
  reader.words_.clear();
  rows.rethrow();
  reader.seek({});
  std::vector<FittedColumn> fitted;
  for (auto const& fit : fits) {
    fitted.push_back(fit->result());
  }
  fitted_ = std::make_shared<FittedTransforms>(std::move(fitted));
}

}  // namespace detail

Transforms::Transforms(Schema const& schema)
    : state_(std::make_shared<detail::TransformState>(detail::stated_by(schema))) {}

void Transforms::fit(Reader& reader, int threads) const {
  state_->fit(reader, threads);
}

bool Transforms::is_fitted() const noexcept {
  return state_->fitted() != nullptr;
}

Chunk Transforms::apply(Chunk raw) const {
  auto const& fitted = *state_->require_fitted();
  auto result = std::make_shared<Schema const>(fitted.result_of(raw.schema()));
  raw.check();
  try {
    fitted.apply(raw, std::move(result));
  } catch (detail::RowError const& error) {
    throw DataError(fmt::format("row {}: {}", error.row(), error.what()));
  }
  return raw;
}

namespace {

detail::FittedColumn const& column_with_ids(detail::FittedTransforms const& fitted,
                                            std::string_view name) {
  auto const* const found = fitted.find(name);
  require(found != nullptr, "column '{}' has no transforms", name);
  static_cast<void>(found->id_count());
  return *found;
}

/// Returns the number of an id in a vocabulary; empty if the id is none of the vocabulary's.
std::optional<std::size_t> number_of_id(detail::FittedColumn const& column, std::int64_t id) {
  require(id >= 0 && id < column.id_count(),
          "column '{}' has no id {}; expected 0 to {}",
          column.raw.name,
          id,
          column.id_count() - 1);
  auto const first = column.raw.transforms.front().buckets;
  return id < first ? std::nullopt : std::optional(static_cast<std::size_t>(id - first));
}

}  // namespace

std::int64_t Transforms::id_count(std::string_view column) const {
  return column_with_ids(*state_->require_fitted(), column).id_count();
}

std::optional<std::int64_t> Transforms::key(std::string_view column, std::int64_t id) const {
  auto const& found = column_with_ids(*state_->require_fitted(), column);
  auto const number = number_of_id(found, id);
  return number ? std::optional(found.vocabulary->keys[*number]) : std::nullopt;
}

std::optional<std::string_view> Transforms::word(std::string_view column, std::int64_t id) const {
  auto const& found = column_with_ids(*state_->require_fitted(), column);
  auto const number = number_of_id(found, id);
  return number ? found.vocabulary->word(*number) : std::nullopt;
}

std::shared_ptr<detail::FittedTransforms const> Transforms::fitted() const {
  return state_->require_fitted();
}

std::shared_ptr<msstream::detail::HostState> Transforms::host_state() const {
  return state_;
}

}  // namespace msstream::data
