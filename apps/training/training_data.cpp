// SPDX-License-Identifier: Apache-2.0
#include "training/training_data.hpp"

#include "cli/options.hpp"

#include <msstream/data/data_error.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
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
  std::vector<std::int64_t> table_rows;
  for (auto const& field : columns.categorical) {
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
          std::move(origin)};
}

}  // namespace msstream::training
