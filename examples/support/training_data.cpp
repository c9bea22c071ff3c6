// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/text.hpp>
#include <msstream/support/data_error.hpp>
#include <msstream/support/options.hpp>
#include <msstream/support/standardise.hpp>
#include <msstream/support/training_data.hpp>

#include <algorithm>
#include <cstddef>
#include <new>
#include <utility>

namespace msstream::support {

namespace {

/// The buckets of a table per distinct key, enough for few collisions. Tables are updated by row,
/// so unused rows cost only memory.
constexpr std::int64_t kBucketsPerKey = 32;
constexpr std::int64_t kLeastBuckets = 1024;
constexpr std::int64_t kMostBuckets = 1'000'000;

Dataset loaded(RowSource& source, std::string const& origin) {
  try {
    return load_dataset(source);
  } catch (std::bad_alloc const&) {
    throw DataError(text(origin, ": the rows do not fit into memory; ulimit -v may bound it"));
  }
}

}  // namespace

TrainingData load_training_data(RowSource& source,
                                std::string origin,
                                TrainingDataOptions const& options) {
  auto dataset = loaded(source, origin);
  auto split = split_rows(dataset.rows(), options.holdout);
  if (split.training.empty()) {
    throw UsageError(
        text(dataset.rows(), " rows leave none to train on with --holdout ", options.holdout));
  }
  standardise(dataset, fit_standardisation(dataset, split.training));

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

}  // namespace msstream::support
