// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/training_data.hpp"

#include <msstream/data/loader.hpp>

#include <cstdint>

namespace msstream::training {

/// The plan of a training's batches: the options of the loader that makes them, and the number of
/// rows in an epoch. Batch b is batch number b modulo `batches_per_epoch()` of epoch number b
/// divided by `batches_per_epoch()`.
struct EpochPlan {
  std::int64_t rows = 0;
  data::LoaderOptions loader;

  [[nodiscard]] std::int64_t batches_per_epoch() const noexcept {
    bool const counts_rest = loader.last_batch != data::LastBatch::dropped;
    return (counts_rest ? rows + loader.batch_size - 1 : rows) / loader.batch_size;
  }
  [[nodiscard]] std::int64_t batch_count() const noexcept {
    return loader.epochs * batches_per_epoch();
  }
};

/// Returns the plan of a program's batches of training rows, shuffled as the data says.
/// With LastBatch::dropped, all batches have one size, so that a captured step fits them all.
template <class Options>
[[nodiscard]] EpochPlan plan_of(Options const& options,
                                TrainingData const& data,
                                data::LastBatch last_batch) {
  return {.rows = data.training_rows,
          .loader = {.batch_size = options.batch,
                     .epochs = options.epochs,
                     .shuffle_rows = data.shuffle_rows,
                     .seed = options.seed,
                     .last_batch = last_batch,
                     .threads = options.reader_threads,
                     .transforms = data.transforms}};
}

}  // namespace msstream::training
