// SPDX-License-Identifier: Apache-2.0
#pragma once

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

}  // namespace msstream::training
