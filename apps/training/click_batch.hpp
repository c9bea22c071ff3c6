// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/click_columns.hpp"

#include <msstream/data/device_loader.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/tensor/copy.hpp>

#include <cstdint>
#include <optional>
#include <utility>

namespace msstream::training {

/// The tensors of a batch of click data on the device.
template <Runtime R>
struct ClickBatch {
  Tensor<std::int64_t, R> keys;  ///< [fields, rows, hotness]
  Tensor<float, R> floats;       ///< the elements of `continuous`, then those of `labels`
  Tensor<float, R> continuous;   ///< [rows, continuous]
  Tensor<float, R> labels;       ///< [tasks, rows, 1]
  /// The keys of the next batch, if its lookups are sent ahead.
  std::optional<Tensor<std::int64_t, R>> next_keys = {};
};

/// The numbers of values of a row of click data.
struct ClickWidths {
  std::int64_t continuous;
  std::int64_t tasks;
};

/// Returns a batch whose continuous values and labels are views of `floats`.
template <Runtime R>
ClickBatch<R> click_batch(Tensor<std::int64_t, R> keys,
                          Tensor<float, R> floats,
                          ClickWidths const& widths) {
  auto const rows = keys.shape()[1];
  auto const first_label = rows * widths.continuous;
  auto continuous = floats.rows(0, first_label).reshaped({rows, widths.continuous});
  auto labels =
      floats.rows(first_label, first_label + widths.tasks * rows).reshaped({widths.tasks, rows, 1});
  return {std::move(keys), std::move(floats), std::move(continuous), std::move(labels)};
}

/// Returns the columns of a batch as views, with the rows of DeviceBatch::shape_rows().
template <Runtime R>
ClickBatch<R> click_batch(datasets::ClickColumns const& columns,
                          data::DeviceBatch<R> const& batch) {
  return click_batch<R>(batch.ints(columns.categorical.front(), columns.categorical.back())
                            .reshaped({columns.fields(), batch.shape_rows(), columns.hotness}),
                        batch.floats(datasets::kContinuous, columns.labels.back()),
                        {columns.continuous, columns.tasks()});
}

/// Returns copies on the device of the columns of a batch in host memory.
template <Runtime R>
ClickBatch<R> click_batch(datasets::ClickColumns const& columns,
                          data::Batch const& batch,
                          Device<R> const& device) {
  auto const keys = batch.ints(columns.categorical.front(), columns.categorical.back());
  auto const floats = batch.floats(datasets::kContinuous, columns.labels.back());
  return click_batch<R>(
      to_device(device, keys, {columns.fields(), batch.shape_rows(), columns.hotness}),
      to_device(device, floats, {static_cast<std::int64_t>(floats.size())}),
      {columns.continuous, columns.tasks()});
}

/// Returns a batch with memory of its own and the shapes of another one, without keys of the next
/// batch. Its elements are undefined. A captured step reads it, since replays read fixed addresses.
template <Runtime R>
ClickBatch<R> room_for(ClickBatch<R> const& batch) {
  auto const& device = batch.keys.device();
  return click_batch<R>({device, batch.keys.shape()},
                        {device, batch.floats.shape()},
                        {batch.continuous.shape()[1], batch.labels.shape()[0]});
}

/// Copies a batch to the memory of another one with equal shapes: the keys by one operation, and
/// all floats by another one. Copies the keys of the next batch too if `to` has such.
template <Runtime R>
void copy(ClickBatch<R> const& to, ClickBatch<R> const& from) {
  copy(to.keys, from.keys);
  copy(to.floats, from.floats);
  if (to.next_keys) {
    copy(*to.next_keys, from.next_keys.value());
  }
}

}  // namespace msstream::training
