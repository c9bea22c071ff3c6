// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/table.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::datasets {

/// The layout of the arrays of a batch, and the arrays' lengths.
struct BatchLayout {
  std::size_t fields;
  std::size_t hotness;
  std::size_t continuous;
  std::size_t labels;
  std::size_t capacity;  ///< rows of a full batch

  BatchLayout(Schema const& schema, std::size_t batch_size)
      : fields(schema.categorical.size()),
        hotness(static_cast<std::size_t>(schema.hotness)),
        continuous(schema.continuous.size()),
        labels(schema.labels.size()),
        capacity(batch_size) {}

  [[nodiscard]] std::size_t key_count() const noexcept { return fields * capacity * hotness; }
  [[nodiscard]] std::size_t continuous_count() const noexcept { return capacity * continuous; }
  [[nodiscard]] std::size_t label_count() const noexcept { return labels * capacity; }
};

/// One batch in memory that the caller owns, page-locked if it is to be copied to a device.
///
/// The strides are those of a full batch even if `rows` is less, so that a captured step reads the
/// same addresses for every batch. The rows from `rows` to the capacity are zero.
struct StagedBatch {
  std::int64_t* keys;      ///< [categorical][capacity][hotness]
  float* continuous;       ///< [capacity][continuous]
  float* labels;           ///< [labels][capacity]
  std::int64_t rows = 0;   ///< number of used rows, at most the capacity
  std::int64_t index = 0;  ///< number of the batch since the start of training
};

/// Staged batches in ordinary memory, for the host runtime and for tests.
class HostStaging {
 public:
  HostStaging(BatchLayout const& layout, std::size_t count)
      : keys_(layout.key_count() * count),
        floats_((layout.continuous_count() + layout.label_count()) * count) {
    auto* keys = keys_.data();
    auto* floats = floats_.data();
    for (std::size_t i = 0; i < count; ++i) {
      batches_.push_back({keys, floats, floats + layout.continuous_count()});
      keys += layout.key_count();
      floats += layout.continuous_count() + layout.label_count();
    }
  }

  [[nodiscard]] std::vector<StagedBatch>& batches() noexcept { return batches_; }

 private:
  std::vector<std::int64_t> keys_;
  std::vector<float> floats_;
  std::vector<StagedBatch> batches_;
};

}  // namespace msstream::datasets
