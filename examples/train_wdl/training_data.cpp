// SPDX-License-Identifier: Apache-2.0
#include "training_data.hpp"

#include <msstream/base/text.hpp>
#include <msstream/support/generated.hpp>

#include <memory>

namespace train_wdl {

namespace support = msstream::support;

namespace {

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
  return support::load_training_data(
      *source,
      options.data.empty() ? ms::text("generated data, seed ", options.seed) : options.data,
      {.holdout = options.holdout, .buckets = options.buckets});
}

}  // namespace train_wdl
