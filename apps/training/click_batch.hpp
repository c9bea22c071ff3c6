// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/click_columns.hpp"

#include <msstream/data/device_loader.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/tensor/copy.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace msstream::training {

/// The tensors of a batch of click data on the device.
template <Runtime R>
struct ClickBatch {
  Tensor<std::int64_t, R> keys;  ///< [fields, rows, hotness]
  Tensor<float, R> continuous;   ///< [rows, continuous]
  Tensor<float, R> labels;       ///< [tasks, rows, 1]
  /// The keys of the next batch, if its lookups are sent ahead.
  std::optional<Tensor<std::int64_t, R>> next_keys = {};
};

/// Returns the columns of a batch as views, with the rows of DeviceBatch::shape_rows().
template <Runtime R>
ClickBatch<R> click_batch(datasets::ClickColumns const& columns,
                          data::DeviceBatch<R> const& batch) {
  auto const rows = batch.shape_rows();
  return {batch.ints(columns.categorical.front(), columns.categorical.back())
              .reshaped({columns.fields(), rows, columns.hotness}),
          batch.floats(datasets::kContinuous).reshaped({rows, columns.continuous}),
          batch.floats(columns.labels.front(), columns.labels.back())
              .reshaped({columns.tasks(), rows, 1})};
}

/// Returns copies on the device of the columns of a batch in host memory.
template <Runtime R>
ClickBatch<R> click_batch(datasets::ClickColumns const& columns,
                          data::Batch const& batch,
                          Device<R> const& device) {
  auto const rows = batch.shape_rows();
  auto const put = [&](auto values, Shape const& shape) {
    return to_device(device, std::vector(values.begin(), values.end()), shape);
  };
  return {
      put(batch.ints(columns.categorical.front(), columns.categorical.back()),
          {columns.fields(), rows, columns.hotness}),
      put(batch.floats(datasets::kContinuous), {rows, columns.continuous}),
      put(batch.floats(columns.labels.front(), columns.labels.back()), {columns.tasks(), rows, 1})};
}

}  // namespace msstream::training
