// SPDX-License-Identifier: Apache-2.0
#include "training_data.hpp"

#include <msstream/support/generated.hpp>
#include <msstream/support/standardise.hpp>

#include <algorithm>
#include <memory>

namespace train_wdl {

namespace support = msstream::support;
using msstream::text;

namespace {

/// Few collisions: 32 buckets a distinct key; tables are updated by row, so that unused rows cost
/// only memory.
constexpr std::int64_t kBucketsPerKey = 32;
constexpr std::int64_t kLeastBuckets = 1024;
constexpr std::int64_t kMostBuckets = 1'000'000;

std::unique_ptr<support::RowSource> open_source(TrainOptions const& options) {
  if (options.data.empty()) {
    return std::make_unique<support::GeneratedSource>(
        support::GeneratedOptions{.rows = options.rows, .seed = options.seed});
  }
  return support::open_data(options.data, {.format = options.format});
}

}  // namespace

TrainingData load_training_data(TrainOptions const& options) {
  auto const source = open_source(options);
  auto dataset = support::load_dataset(*source);
  auto split = support::split_rows(dataset.rows(), options.holdout);
  msstream::require(!split.training.empty(),
                    dataset.rows(),
                    " rows leave none to train on with --holdout ",
                    options.holdout);
  support::standardise(dataset, support::fit_standardisation(dataset, split.training));

  std::vector<std::int64_t> table_rows;
  for (std::size_t field = 0; field < dataset.schema().categorical.size(); ++field) {
    table_rows.push_back(options.buckets != 0
                             ? options.buckets
                             : std::clamp(dataset.distinct_keys(field) * kBucketsPerKey,
                                          kLeastBuckets,
                                          kMostBuckets));
  }
  auto const origin =
      options.data.empty() ? text("generated data, seed ", options.seed) : options.data;
  return {std::move(dataset), std::move(split), std::move(table_rows), origin};
}

}  // namespace train_wdl
