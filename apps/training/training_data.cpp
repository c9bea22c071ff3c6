// SPDX-License-Identifier: Apache-2.0
#include "training/training_data.hpp"

#include "cli/options.hpp"
#include "datasets/standardise.hpp"

#include <msstream/data/data_error.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <utility>

namespace msstream::training {

namespace {

/// The buckets of a table per distinct key, enough for few collisions. Tables are updated by row,
/// so unused rows cost only memory.
constexpr std::int64_t kBucketsPerKey = 32;
constexpr std::int64_t kLeastBuckets = 1024;
constexpr std::int64_t kMostBuckets = 1'000'000;

datasets::Dataset loaded(datasets::RowSource& source, std::string const& origin) {
  try {
    return datasets::load_dataset(source);
  } catch (std::bad_alloc const&) {
    throw data::DataError(
        fmt::format("{}: the rows do not fit into memory; ulimit -v may bound it", origin));
  }
}

}  // namespace

TrainingData load_training_data(datasets::RowSource& source,
                                std::string origin,
                                TrainingDataOptions const& options) {
  auto dataset = loaded(source, origin);
  auto split = datasets::split_rows(dataset.rows(), options.holdout);
  if (split.training.empty()) {
    throw cli::UsageError(fmt::format(
        "{} rows leave none to train on with --holdout {}", dataset.rows(), options.holdout));
  }
  datasets::standardise(dataset, datasets::fit_standardisation(dataset, split.training));

  std::vector<std::int64_t> table_rows;
  for (std::size_t field = 0; field < dataset.schema().categorical.size(); ++field) {
    table_rows.push_back(options.buckets != 0
                             ? options.buckets
                             : std::clamp(dataset.distinct_keys(field) * kBucketsPerKey,
                                          kLeastBuckets,
                                          kMostBuckets));
  }
  return {std::move(dataset), std::move(split), std::move(table_rows), std::move(origin)};
}

}  // namespace msstream::training
