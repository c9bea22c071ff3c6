// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.hpp"
#include "data/fitted_transforms.hpp"

#include <msstream/base/detail/require.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

namespace msstream::data::detail {

namespace {

/// Throws std::invalid_argument unless the type of the column has the step.
void check_type(Column const& column, Transform const& step) {
  bool const fills = step.kind == Transform::Kind::fill_missing;
  bool const fits = step.shortens()     ? column.is_jagged()
                    : step.takes_keys() ? !column.is_float()
                    : fills             ? column.is_float()
                                        : column.type != ColumnType::hashed;
  require(fits,
          "column '{}' has values of type {}; {} is for {}",
          column.name,
          to_string(column.type),
          to_string(step),
          step.shortens()     ? "jagged columns"
          : step.takes_keys() ? "integers and strings"
          : fills             ? "numbers of type float32"
                              : "numbers");
}

/// Throws std::invalid_argument unless the options of the step are within their ranges.
void check_options(Column const& column, Transform const& step) {
  using Kind = Transform::Kind;
  auto const expect = [&](Kind kind, bool holds, std::string_view expected) {
    require(step.kind != kind || holds,
            "column '{}': {}; expected {}",
            column.name,
            to_string(step),
            expected);
  };
  auto const& boundaries = step.boundaries;
  for (auto const kind : {Kind::hash, Kind::vocabulary}) {
    expect(kind, step.buckets >= 1, "at least 1 bucket");
  }
  expect(Kind::vocabulary,
         step.min_count >= 1 && step.max_values >= 0,
         "a min_count of at least 1, and max_values of at least 0");
  expect(Kind::vocabulary, msstream::detail::is_utf8(step.name), "a name in UTF-8");
  expect(Kind::clip, step.low <= step.high, "a lower bound, and one that is not below it");
  expect(Kind::fill_missing, std::isfinite(step.low), "a finite number");
  expect(
      Kind::bucketize,
      !boundaries.empty() &&
          std::ranges::all_of(boundaries, [](double value) { return std::isfinite(value); }) &&
          std::ranges::adjacent_find(boundaries, std::ranges::greater_equal()) == boundaries.end(),
      "at least one boundary, and finite ones that ascend");
  expect(Kind::quantiles,
         step.buckets >= 2 && step.buckets <= std::int64_t{1} << 20U,
         "2 to 2^20 buckets");
  for (auto const kind : {Kind::first, Kind::last}) {
    expect(kind, step.max_values >= 1, "at least 1 value");
  }
  constexpr std::int64_t day_s = 24 * 3'600;
  for (auto const kind : {Kind::hour_of_day, Kind::day_of_week}) {
    expect(kind,
           step.unit.per_second >= 1 && step.unit.per_second <= 1'000'000'000 &&
               std::abs(step.unit.utc_offset_s) < day_s,
           "1 to 10^9 units per second, and an offset of less than a day");
  }
}

/// Throws std::invalid_argument unless the steps are in their order.
void check_order(Column const& column) {
  auto const& steps = column.transforms;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    auto const& step = steps[i];
    auto const in_front =
        std::ranges::count_if(steps, [](Transform const& other) { return other.shortens(); });
    require(!step.takes_keys() || std::ssize(steps) == 1 + in_front,
            "column '{}' has {} transforms; expected {} alone, or behind first() or last()",
            column.name,
            steps.size(),
            to_string(step));
    require(!step.shortens() || i == 0,
            "column '{}': {} is transform number {}; expected it in front of the others, once",
            column.name,
            to_string(step),
            i + 1);
    require(!step.makes_ids() || i + 1 == steps.size(),
            "column '{}': {} behind {}, which makes ids; expected it in front",
            column.name,
            i + 1 < steps.size() ? to_string(steps[i + 1]) : std::string(),
            to_string(step));
  }
  auto const normalizes = std::ranges::count(steps, Transform::Kind::normalize, &Transform::kind);
  require(normalizes <= 1, "column '{}' has normalize() more than once", column.name);
  require(normalizes == 0 || steps.back().kind != Transform::Kind::quantiles,
          "column '{}' has normalize() and {}, which has the same ids without it",
          column.name,
          steps.empty() ? std::string() : to_string(steps.back()));
}

/// Throws std::invalid_argument if a vocabulary has the name of another one, of another type or
/// with other options.
void check_vocabularies(std::vector<Column> const& stated) {
  std::map<std::string_view, Column const*> users;
  for (auto const& column : stated) {
    auto const& step = column.transforms.back();
    if (step.kind != Transform::Kind::vocabulary) {
      continue;
    }
    auto const& first = *users.try_emplace(vocabulary_name(column), &column).first->second;
    require(first.type == column.type && first.transforms.back() == step,
            "columns '{}' and '{}' have the vocabulary '{}', with type {} and {}, and with type {} "
            "and {}; expected them to be equal",
            first.name,
            column.name,
            vocabulary_name(column),
            to_string(first.type),
            to_string(first.transforms.back()),
            to_string(column.type),
            to_string(step));
  }
}

/// Throws std::invalid_argument if rows of columns that are aligned are not shortened alike.
void check_alignment(Schema const& schema) {
  auto const shortening = [](Column const& column) {
    auto const& steps = column.transforms;
    return steps.empty() || !steps.front().shortens() ? "unshortened" : to_string(steps.front());
  };
  for (auto const& column : schema.columns()) {
    if (column.aligned_with.empty()) {
      continue;
    }
    auto const& other = schema.columns()[schema.index_of(column.aligned_with)];
    require(shortening(column) == shortening(other),
            "column '{}' is {}, and column '{}', which it is aligned with, {}; expected the same",
            column.name,
            shortening(column),
            other.name,
            shortening(other));
  }
}

}  // namespace

std::vector<Column> stated_by(Schema const& schema) {
  std::vector<Column> stated;
  for (auto const& column : schema.columns()) {
    for (auto const& step : column.transforms) {
      check_type(column, step);
      check_options(column, step);
    }
    check_order(column);
    if (!column.transforms.empty()) {
      stated.push_back(column);
    }
  }
  check_vocabularies(stated);
  check_alignment(schema);
  return stated;
}

}  // namespace msstream::data::detail
