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
    return step.kind == Transform::Kind::vocabulary || step.kind == Transform::Kind::normalize;
  });
  return found == column.transforms.end() ? nullptr : &*found;
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

double FittedColumn::number(double value, std::size_t slot, std::size_t end) const {
  for (std::size_t i = 0; i < end; ++i) {
    auto const& step = raw.transforms[i];
    if (step.kind == Transform::Kind::fill_missing) {
      value = std::isnan(value) ? step.low : value;
      continue;
    }
    if (std::isnan(value)) {
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
  auto const& step = raw.transforms.front();
  if (step.kind == Transform::Kind::hash) {
    return salted_bucket(key, step.buckets, step.salt);
  }
  auto const number = vocabulary->numbers.find(key);
  return number < 0 ? salted_bucket(key, step.buckets, 0) : step.buckets + number;
}

std::int64_t FittedColumn::id_count() const {
  auto const& step = raw.transforms.front();
  require(!raw.becomes_float(), "column '{}' has numbers; expected ids", raw.name);
  auto const values = vocabulary ? static_cast<std::int64_t>(vocabulary->keys.size()) : 0;
  return step.buckets + values;
}

void FittedColumn::apply(Chunk& chunk, std::size_t column) const {
  if (!raw.becomes_float()) {
    for (auto& value : chunk.ints(column)) {
      value = id(value);
    }
    return;
  }
  auto& made = ChunkAccess::floats(chunk, column);
  made.resize(ChunkAccess::count(chunk, column));
  for_each_number(chunk, column, [&](double value, std::size_t i, std::size_t slot) {
    made[i] = float_of(value, slot);
  });
  ChunkAccess::keep_floats_alone(chunk, column);
}

float FittedColumn::float_of(double value, std::size_t slot) const {
  double const made = number(value, slot, raw.transforms.size());
  if (!(std::abs(made) <= static_cast<double>(std::numeric_limits<float>::max()))) {
    throw DataError(
        std::isnan(made)
            ? fmt::format("column '{}': a number is missing; expected one, or fill_missing()",
                          raw.name)
            : fmt::format("column '{}': {} becomes {}; expected a float32", raw.name, value, made));
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
    require(column == known,
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
