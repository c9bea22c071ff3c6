// SPDX-License-Identifier: Apache-2.0
#include "data/fitted_transforms.hpp"

#include "data/chunk_access.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/data_error.hpp>
#include <msstream/data/string_key.hpp>

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace msstream::data::detail {

namespace {

std::string joined_steps(Column const& column) {
  return column.transforms.empty() ? "none" : fmt::format("{}", fmt::join(steps_of(column), ", "));
}

[[noreturn]] void refuse_missing(Column const& column) {
  throw DataError(fmt::format("column '{}': a number is missing; expected one, or fill_missing()",
                              column.name));
}

}  // namespace

std::vector<std::string> steps_of(Column const& column) {
  std::vector<std::string> steps;
  for (auto const& step : column.transforms) {
    steps.push_back(to_string(step));
  }
  return steps;
}

Transform const* fitted_step(Column const& column) {
  auto const found = std::ranges::find_if(column.transforms, [](Transform const& step) {
    return step.kind == Transform::Kind::vocabulary || step.kind == Transform::Kind::normalize ||
           step.kind == Transform::Kind::quantiles;
  });
  return found == column.transforms.end() ? nullptr : &*found;
}

std::string const& vocabulary_name(Column const& column) {
  auto const& name = column.transforms.back().name;
  return name.empty() ? column.name : name;
}

std::int64_t row_of(Chunk const& chunk, std::size_t column, std::size_t value) {
  auto const& of = chunk.schema().columns()[column];
  auto const number = static_cast<std::int64_t>(value);
  if (!of.is_jagged()) {
    return number / of.width;
  }
  auto const& offsets = chunk.offsets(column);
  return std::ranges::upper_bound(offsets, number) - offsets.begin() - 1;
}

FittedColumn::FittedColumn(Column column) : raw(std::move(column)) {
  if (raw.transforms.back().kind == Transform::Kind::bucketize) {
    boundaries = raw.transforms.back().boundaries;
  }
}

double FittedColumn::number(double value, std::size_t slot, std::size_t end) const {
  for (std::size_t i = 0; i < end; ++i) {
    auto const& step = raw.transforms[i];
    if (step.kind == Transform::Kind::fill_missing) {
      value = std::isnan(value) ? step.low : value;
      continue;
    }
    if (std::isnan(value) || step.shortens() || step.makes_ids()) {
      continue;
    }
    if (step.kind == Transform::Kind::clip) {
      value = std::clamp(value, step.low, step.high);
    } else if (step.kind == Transform::Kind::log1p) {
      if (!(value > -1)) {
        throw DataError(
            fmt::format("column '{}': log1p() of {}; expected a number above -1", raw.name, value));
      }
      value = std::log1p(value);
    } else {
      value = (value - means[slot]) / (deviations[slot] == 0 ? 1 : deviations[slot]);
    }
  }
  return value;
}

std::int64_t FittedColumn::id(std::int64_t key) const {
  auto const& step = raw.transforms.back();
  if (step.kind == Transform::Kind::hash) {
    return salted_bucket(key, step.buckets, step.salt);
  }
  auto const number = vocabulary->numbers.find(key);
  return number < 0 ? salted_bucket(key, step.buckets, 0) : step.buckets + number;
}

std::int64_t FittedColumn::id_of_number(double value) const {
  auto const& step = raw.transforms.back();
  if (std::isnan(value)) {
    refuse_missing(raw);
  }
  if (step.kind == Transform::Kind::bucketize || step.kind == Transform::Kind::quantiles) {
    return std::ranges::upper_bound(boundaries, value) - boundaries.begin();
  }
  constexpr double most_s = 1e15;  // in which double has all seconds, and tenths of them
  double const seconds = std::floor(value / static_cast<double>(step.unit.per_second));
  if (!(std::abs(seconds) <= most_s)) {
    throw DataError(
        fmt::format("column '{}': {} of {}; expected a time of at most 1e15 seconds from 1970",
                    raw.name,
                    to_string(step),
                    value));
  }
  constexpr std::int64_t hour_s = 3'600;
  constexpr std::int64_t day_s = 24 * hour_s;
  constexpr std::int64_t monday = 4 * day_s;  // the first one since 1970-01-01
  auto const local = static_cast<std::int64_t>(seconds) + step.unit.utc_offset_s;
  auto const modulo = [](std::int64_t time, std::int64_t period) {
    return (time % period + period) % period;
  };
  return step.kind == Transform::Kind::hour_of_day ? modulo(local, day_s) / hour_s
                                                   : modulo(local - monday, 7 * day_s) / day_s;
}

std::int64_t FittedColumn::id_count() const {
  auto const& step = raw.transforms.back();
  require(step.makes_ids(), "column '{}' has numbers; expected ids", raw.name);
  switch (step.kind) {
    case Transform::Kind::hour_of_day:
      return 24;
    case Transform::Kind::day_of_week:
      return 7;
    case Transform::Kind::bucketize:
    case Transform::Kind::quantiles:
      return static_cast<std::int64_t>(boundaries.size()) + 1;
    default:
      return step.buckets + (vocabulary ? static_cast<std::int64_t>(vocabulary->keys.size()) : 0);
  }
}

void FittedColumn::shorten(Chunk& chunk, std::size_t column) const {
  auto const& step = raw.transforms.front();
  if (!step.shortens()) {
    return;
  }
  auto& offsets = chunk.offsets(column);
  Values<std::int64_t> const before = offsets;
  for (std::size_t row = 1; row < offsets.size(); ++row) {
    offsets[row] = offsets[row - 1] + std::min(before[row] - before[row - 1], step.max_values);
  }
  ChunkAccess::for_each_kind(chunk, column, [&](auto& values) {
    if (values.empty()) {
      return;
    }
    for (std::size_t row = 1; row < offsets.size(); ++row) {
      auto const count = offsets[row] - offsets[row - 1];
      auto const from = step.kind == Transform::Kind::first ? before[row - 1] : before[row] - count;
      std::copy_n(values.begin() + from, count, values.begin() + offsets[row - 1]);
    }
    values.resize(static_cast<std::size_t>(offsets.back()));
  });
}

void FittedColumn::apply(Chunk& chunk, std::size_t column) const {
  shorten(chunk, column);
  auto const& step = raw.transforms.back();
  if (step.takes_keys()) {
    for (auto& value : chunk.ints(column)) {
      value = id(value);
    }
  } else if (step.makes_ids()) {
    auto& made = ChunkAccess::ints(chunk, column);
    made.resize(ChunkAccess::count(chunk, column));
    for_each_number(chunk, column, [&](double value, std::size_t i, std::size_t slot) {
      made[i] = id_of_number(number(value, slot, raw.transforms.size()));
    });
    ChunkAccess::keep_ints_alone(chunk, column);
  } else if (raw.becomes_float()) {
    auto& made = ChunkAccess::floats(chunk, column);
    made.resize(ChunkAccess::count(chunk, column));
    for_each_number(chunk, column, [&](double value, std::size_t i, std::size_t slot) {
      made[i] = float_of(value, slot);
    });
    ChunkAccess::keep_floats_alone(chunk, column);
  }
}

float FittedColumn::float_of(double value, std::size_t slot) const {
  double const made = number(value, slot, raw.transforms.size());
  if (std::isnan(made)) {
    refuse_missing(raw);
  }
  if (!(std::abs(made) <= static_cast<double>(std::numeric_limits<float>::max()))) {
    throw DataError(
        fmt::format("column '{}': {} becomes {}; expected a float32", raw.name, value, made));
  }
  return static_cast<float>(made);
}

FittedColumn const* FittedTransforms::find(std::string_view name) const {
  auto const found = std::ranges::find_if(
      columns_, [&](FittedColumn const& column) { return column.raw.name == name; });
  return found == columns_.end() ? nullptr : &*found;
}

std::uint64_t fingerprint_of(std::vector<Column> const& columns) {
  std::string text;
  for (auto const& column : columns) {
    text += fmt::format(
        "{} {} {} {};", column.name, to_string(column.type), column.width, joined_steps(column));
  }
  return std::bit_cast<std::uint64_t>(string_key(text));
}

std::uint64_t FittedTransforms::fingerprint() const {
  std::uint64_t hash = 0;
  auto const add = [&](auto const& values) {
    for (auto const value : values) {
      hash = mix64(hash ^ std::bit_cast<std::uint64_t>(value));
    }
    hash = mix64(hash ^ values.size());
  };
  for (auto const& column : columns_) {
    add(std::vector{fingerprint_of({column.raw})});
    add(column.means);
    add(column.deviations);
    if (!column.boundaries.empty()) {
      add(column.boundaries);
    }
    if (column.vocabulary) {
      add(column.vocabulary->keys);
    }
  }
  return std::max<std::uint64_t>(1, hash);
}

Schema FittedTransforms::result_of(Schema const& raw) const {
  auto columns = raw.columns();
  for (auto& column : columns) {
    auto const* const fitted = find(column.name);
    if (fitted == nullptr && column.transforms.empty()) {
      continue;
    }
    auto const known = fitted == nullptr ? Column{column.name} : fitted->raw;
    require(column.transforms == known.transforms,
            "column '{}' of the rows states the transforms {}; expected {}",
            column.name,
            joined_steps(column),
            joined_steps(known));
    require(column.type == known.type && column.width == known.width,
            "column '{}' has values of type {} and width {}; its transforms expect {} and {}",
            column.name,
            to_string(column.type),
            column.width,
            to_string(known.type),
            known.width);
    column.type = column.becomes_float() ? ColumnType::float32 : ColumnType::int64;
    column.transforms.clear();
  }
  return Schema(std::move(columns));
}

void FittedTransforms::apply(Chunk& chunk, std::shared_ptr<Schema const> result) const {
  auto const& columns = chunk.schema().columns();
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (auto const* const column = find(columns[i].name)) {
      column->apply(chunk, i);
    }
  }
  ChunkAccess::set_schema(chunk, std::move(result));
}

}  // namespace msstream::data::detail
