// SPDX-License-Identifier: Apache-2.0
#include "datasets/generated.hpp"

#include "datasets/counter_random.hpp"

#include <msstream/base/detail/require.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

namespace msstream::datasets {

namespace {

constexpr std::size_t kContinuousValues = 13;
constexpr int kMostTasks = 64;
constexpr double kPopularityExponent = 1.05;
constexpr std::array<std::int64_t, 26> kCardinalities{
    1460,  583,     1'000'000, 200'000, 305,  24, 12517,   633, 3,  93145,  5683, 800'000, 3194, 27,
    14992, 500'000, 10,        5652,    2173, 4,  700'000, 18,  15, 80'000, 105,  60'000};

std::vector<std::int64_t> hotness_of(GeneratedOptions const& options) {
  auto const& own = options.hotness_of_fields;
  return own.empty() ? std::vector<std::int64_t>(kCardinalities.size(), options.hotness) : own;
}

std::vector<std::int64_t> cardinalities_of(GeneratedOptions const& options) {
  if (!options.cardinalities.empty()) {
    return options.cardinalities;
  }
  std::vector<std::int64_t> cardinalities;
  for (auto const cardinality : kCardinalities) {
    cardinalities.push_back(std::min(cardinality, options.largest_cardinality));
  }
  return cardinalities;
}

data::Schema schema_of(GeneratedOptions const& options) {
  require(options.rows >= 0, "generated data: {} rows", options.rows);
  require(options.hotness >= 1, "generated data: hotness {} is below 1", options.hotness);
  require(options.largest_cardinality >= 1,
          "generated data: largest cardinality {} is below 1",
          options.largest_cardinality);
  require(options.tasks >= 1 && options.tasks <= kMostTasks,
          "generated data: {} tasks; expected 1 to {}",
          options.tasks,
          kMostTasks);
  for (auto const& [name, own] : {std::pair("hotness", &options.hotness_of_fields),
                                  std::pair("cardinality", &options.cardinalities)}) {
    require(own->empty() || own->size() == kCardinalities.size(),
            "generated data: {} numbers of {}; expected none or {}",
            own->size(),
            name,
            kCardinalities.size());
    constexpr std::int64_t kMost = std::int64_t{1} << 31U;
    for (auto const number : *own) {
      require(number >= 1 && number <= kMost,
              "generated data: a {} of {}; expected 1 to {}",
              name,
              number,
              kMost);
    }
  }
  auto const hotness = hotness_of(options);
  std::vector<data::Column> columns;
  for (std::size_t field = 0; field < kCardinalities.size(); ++field) {
    columns.push_back({fmt::format("C{}", field + 1), data::ColumnType::int64, hotness[field]});
  }
  columns.push_back({.name = std::string(kContinuous),
                     .width = kContinuousValues,
                     .transforms = {data::Transform::normalize()}});
  for (int task = 0; task < options.tasks; ++task) {
    columns.push_back({task == 0 ? "Label" : fmt::format("Label{}", task + 1)});
  }
  return data::Schema(std::move(columns));
}

/// The purpose of a random stream. Streams of different purposes are always distinct streams.
enum class Purpose : std::uint64_t { rank, continuous, label, weight, interaction, key };

std::uint64_t stream_of(Purpose purpose, std::size_t field) {
  return static_cast<std::uint64_t>(purpose) * 1024 + field;
}

/// Returns a standard normal value that depends only on the arguments.
double planted(std::uint64_t seed, Purpose purpose, std::size_t field, std::int64_t number) {
  auto const stream = stream_of(purpose, field);
  auto const counter = 2 * static_cast<std::uint64_t>(number);
  return normal_of(random_bits(seed, stream, counter), random_bits(seed, stream, counter + 1));
}

/// Returns a standard normal value of the relation that task `task` has to learn. All of the value
/// of task 0 is common to all tasks; for other tasks, half of the variance is common and half is
/// the task's own.
double planted(std::uint64_t seed, int task, Purpose purpose, std::size_t field, std::int64_t i) {
  double const common = planted(seed, purpose, field, i);
  if (task == 0) {
    return common;
  }
  auto const own = mix64(seed ^ (static_cast<std::uint64_t>(task) << 32U));
  return std::sqrt(0.5) * (common + planted(own, purpose, field, i));
}

/// Returns the inverse of the distribution function of a continuous power law over [1, cardinality
/// + 1), as a whole number from 0.
std::int64_t power_law_rank(double uniform, std::int64_t cardinality) {
  constexpr double power = 1.0 - kPopularityExponent;
  double const end = std::pow(static_cast<double>(cardinality + 1), power);
  double const value = std::pow(1.0 + uniform * (end - 1.0), 1.0 / power);
  return std::clamp(static_cast<std::int64_t>(value) - 1, std::int64_t{0}, cardinality - 1);
}

}  // namespace

GeneratedData::GeneratedData(GeneratedOptions const& options)
    : options_(options),
      hotness_(hotness_of(options)),
      cardinalities_(cardinalities_of(options)),
      schema_(schema_of(options)) {}

std::int64_t GeneratedData::key(std::size_t field, std::int64_t rank) const {
  if (options_.has_small_keys) {
    // Spreads popular keys over the whole range. The factor is a prime, so the keys of a field are
    // distinct unless its cardinality is a multiple of it.
    constexpr std::int64_t kPrime = 2'654'435'761;
    return rank * kPrime % cardinalities_[field];
  }
  return std::bit_cast<std::int64_t>(
      random_bits(options_.seed, stream_of(Purpose::key, field), static_cast<std::uint64_t>(rank)));
}

std::int64_t GeneratedData::rank(std::int64_t row, std::size_t field, std::int64_t slot) const {
  auto const counter = static_cast<std::uint64_t>(row * hotness_[field] + slot);
  auto const bits = random_bits(options_.seed, stream_of(Purpose::rank, field), counter);
  return power_law_rank(uniform_of(bits), cardinalities_[field]);
}

double GeneratedData::continuous(std::int64_t row, std::size_t field) const {
  return planted(options_.seed, Purpose::continuous, field, row);
}

double GeneratedData::true_logit(std::int64_t row, int task) const {
  double logit = -1.0;
  std::array<double, 4> factors{};  // factors of two products: fields 0 and 1, fields 2 and 3
  for (std::size_t field = 0; field < cardinalities_.size(); ++field) {
    double sum = 0;
    auto const hotness = static_cast<double>(hotness_[field]);
    for (std::int64_t slot = 0; slot < hotness_[field]; ++slot) {
      auto const value = rank(row, field, slot);
      sum += planted(options_.seed, task, Purpose::weight, field, value);
      if (field < factors.size()) {
        factors[field] += planted(options_.seed, task, Purpose::interaction, field, value);
      }
    }
    if (field < factors.size()) {
      factors[field] /= std::sqrt(hotness);
    }
    logit += 0.35 * sum / std::sqrt(hotness);  // the variance is independent of the hotness
  }
  for (std::size_t field = 0; field < kContinuousValues; ++field) {
    logit += 0.3 * planted(options_.seed, task, Purpose::weight, 512 + field, 0) *
             continuous(row, field);
  }
  return logit + 0.5 * (factors[0] * factors[1] + factors[2] * factors[3]);
}

data::Chunk GeneratedData::chunk(std::int64_t first_row, std::int64_t rows) const {
  data::Chunk chunk(schema_);
  auto const fields = cardinalities_.size();
  for (std::size_t field = 0; field < fields; ++field) {
    auto& keys = chunk.ints(field);
    keys.reserve(static_cast<std::size_t>(rows * hotness_[field]));
    for (std::int64_t row = first_row; row < first_row + rows; ++row) {
      for (std::int64_t slot = 0; slot < hotness_[field]; ++slot) {
        keys.push_back(key(field, rank(row, field, slot)));
      }
    }
  }
  auto& values = chunk.floats(fields);
  values.reserve(static_cast<std::size_t>(rows) * kContinuousValues);
  for (std::int64_t row = first_row; row < first_row + rows; ++row) {
    for (std::size_t field = 0; field < kContinuousValues; ++field) {
      values.push_back(static_cast<float>(continuous(row, field)));
    }
  }
  for (int task = 0; task < options_.tasks; ++task) {
    auto const number = static_cast<std::size_t>(task);
    auto& labels = chunk.floats(fields + 1 + number);
    for (std::int64_t row = first_row; row < first_row + rows; ++row) {
      double const draw = uniform_of(random_bits(
          options_.seed, stream_of(Purpose::label, number), static_cast<std::uint64_t>(row)));
      double const chance = 1.0 / (1.0 + std::exp(-true_logit(row, task)));
      labels.push_back(draw < chance ? 1.0F : 0.0F);
    }
  }
  return chunk;
}

bool GeneratedReader::next(data::Chunk& chunk) {
  auto const task = next_task();
  if (!task) {
    return false;
  }
  task(chunk);
  return true;
}

data::Reader::Task GeneratedReader::next_task() {
  constexpr std::int64_t rows_per_task = 4096;
  std::int64_t const first = next_row_;
  std::int64_t const count = std::min(rows_per_task, data_.options().rows - first);
  if (count <= 0) {
    return {};
  }
  next_row_ += count;
  return [this, first, count](data::Chunk& chunk) { chunk = data_.chunk(first, count); };
}

}  // namespace msstream::datasets
