// SPDX-License-Identifier: Apache-2.0
#include "training/training_data.hpp"

#include "cli/options.hpp"

#include <msstream/data/data_error.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <new>
#include <utility>

namespace msstream::training {

namespace {

/// The buckets of a table per distinct key, enough for few collisions. Tables are updated by row,
/// so unused rows cost only memory.
constexpr std::int64_t kBucketsPerKey = 32;
constexpr std::int64_t kLeastBuckets = 1024;
constexpr std::int64_t kMostBuckets = 1'000'000;

datasets::DividedRows loaded(data::Reader& reader,
                             std::string const& origin,
                             std::int64_t holdout) {
  try {
    return datasets::divide(datasets::load_rows(reader), holdout);
  } catch (std::bad_alloc const&) {
    throw data::DataError(
        fmt::format("{}: the rows do not fit into memory; ulimit -v may bound it", origin));
  }
}

/// Throws DataError for a label that is neither 0 nor 1.
void require_labels(datasets::StoredRows const& rows,
                    std::vector<std::string> const& labels,
                    std::string const& origin) {
  for (auto const& chunk : rows.chunks()) {
    for (auto const& label : labels) {
      for (auto const value : chunk.floats(label)) {
        if (value != 0.0F && value != 1.0F) {
          throw data::DataError(
              fmt::format("{}: column '{}': expected 0 or 1, found {}", origin, label, value));
        }
      }
    }
  }
}

/// Returns the most values of a column of integers that a row has.
std::int64_t most_values(std::initializer_list<datasets::StoredRows const*> parts,
                         data::Schema const& schema,
                         std::string const& name) {
  auto const& column = schema.columns()[schema.index_of(name)];
  if (!column.is_jagged()) {
    return column.width;
  }
  std::int64_t most = 0;
  for (auto const* part : parts) {
    for (auto const& chunk : part->chunks()) {
      auto const& offsets = chunk.offsets(name);
      for (std::size_t row = 1; row < offsets.size(); ++row) {
        most = std::max(most, offsets[row] - offsets[row - 1]);
      }
    }
  }
  return most;
}

}  // namespace

TrainingData load_training_data(data::Reader& reader,
                                std::string origin,
                                TrainingDataOptions const& options) {
  auto [training, held_out] = loaded(reader, origin, options.holdout);
  auto const training_rows = training.rows();
  if (training_rows == 0) {
    throw cli::UsageError(fmt::format(
        "{} rows leave none to train on with --holdout {}", held_out.rows(), options.holdout));
  }
  data::Transforms const transforms(training.schema());
  transforms.fit(*training.reader());

  auto columns = datasets::click_columns(training.schema());
  for (auto const* part : {&training, &held_out}) {
    require_labels(*part, columns.labels, origin);
  }
  std::vector<std::int64_t> table_rows;
  std::vector<std::int64_t> most_keys;
  for (auto const& field : columns.categorical) {
    most_keys.push_back(most_values({&training, &held_out}, training.schema(), field));
    table_rows.push_back(
        options.buckets != 0
            ? options.buckets
            : std::clamp(
                  datasets::distinct_values(
                      std::array{&std::as_const(training), &std::as_const(held_out)}, field) *
                      kBucketsPerKey,
                  kLeastBuckets,
                  kMostBuckets));
  }
  return {std::move(training),
          std::move(held_out),
          training_rows,
          transforms,
          std::move(columns),
          std::move(table_rows),
          std::move(most_keys),
          std::move(origin)};
}

}  // namespace msstream::training
