// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training_data.hpp"
#include "wide_deep.hpp"

#include <msstream/support/batch_loader.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace train_wdl {

/// Brings batches to the device ahead of their use: worker threads fill pinned buffers, and each
/// batch's copies are issued on the group's h2d stream one batch before it is asked for.
template <ms::Runtime R>
class DeviceFeed {
 public:
  struct Batch {
    DeviceBatch<R> device;
    std::int64_t rows;
    std::int64_t index;
  };

  DeviceFeed(ms::Device<R> device,
             TrainingData const& data,
             ms::support::BatchPlan plan,
             std::int64_t first_batch,
             int threads,
             ms::StreamGroup<R>& group)
      : device_(std::move(device)),
        layout_(data.dataset.schema(), static_cast<std::size_t>(plan.batch_rows)),
        staged_(make_staging()),
        loader_(data.dataset,
                std::move(plan),
                buffers_of(staged_),
                {.threads = static_cast<std::size_t>(threads), .first_batch = first_batch}),
        uploads_(group, [this] { return upload(); }) {}

  /// The next batch; empty after the last. The batch after it is on its way when this returns.
  [[nodiscard]] std::optional<Batch> next() { return uploads_.next(); }

 private:
  static constexpr std::size_t kStagingBuffers = 6;
  static constexpr std::size_t kInFlight = 3;

  /// One batch in pinned memory; floats hold the continuous values, then the labels.
  struct Staging {
    ms::PinnedArray<std::int64_t, R> keys;
    ms::PinnedArray<float, R> floats;
    ms::support::StagedBatch batch;

    /// The loader's threads write through addresses that a checking runtime does not see used.
    void host_writes() const {
      keys.host_writes();
      floats.host_writes();
    }
  };

  std::vector<Staging> make_staging() {
    std::vector<Staging> staging;
    for (std::size_t i = 0; i < kStagingBuffers; ++i) {
      ms::PinnedArray<std::int64_t, R> keys(device_, layout_.key_count());
      ms::PinnedArray<float, R> floats(device_, layout_.continuous_count() + layout_.label_count());
      ms::support::StagedBatch const batch{
          keys.data(), floats.data(), floats.data() + layout_.continuous_count()};
      staging.push_back({std::move(keys), std::move(floats), batch});
      staging.back().host_writes();
    }
    return staging;
  }
  static std::vector<ms::support::StagedBatch*> buffers_of(std::vector<Staging>& staging) {
    std::vector<ms::support::StagedBatch*> buffers;
    buffers.reserve(staging.size());
    for (auto& stage : staging) {
      buffers.push_back(&stage.batch);
    }
    return buffers;
  }

  Staging& stage_of(ms::support::StagedBatch const* batch) {
    return *std::find_if(staged_.begin(), staged_.end(), [&](Staging const& stage) {
      return &stage.batch == batch;
    });
  }

  /// Waits until the oldest batch's copies are over, which they are long since, and has its buffer
  /// filled again.
  void recycle_oldest() {
    Staging* const oldest = in_flight_.front();
    in_flight_.pop_front();
    oldest->keys.wait();
    oldest->floats.wait();
    oldest->host_writes();
    loader_.recycle(&oldest->batch);
  }

  std::optional<Batch> upload() {
    if (in_flight_.size() == kInFlight) {
      recycle_oldest();
    }
    auto* const filled = loader_.next();
    if (filled == nullptr) {
      return std::nullopt;
    }
    Staging& stage = stage_of(filled);
    in_flight_.push_back(&stage);
    auto const fields = static_cast<std::int64_t>(layout_.fields);
    auto const capacity = static_cast<std::int64_t>(layout_.capacity);
    auto const continuous = static_cast<std::int64_t>(layout_.continuous);
    ms::NameScope const name("feed");
    ms::Tensor<std::int64_t, R> keys(device_, {fields, capacity});
    ms::Tensor<float, R> floats(device_, {static_cast<std::int64_t>(stage.floats.count())});
    ms::copy(keys, stage.keys);
    ms::copy(floats, stage.floats);
    auto const values = floats.rows(0, capacity * continuous).reshaped({capacity, continuous});
    auto const labels =
        floats.rows(capacity * continuous, capacity * (continuous + 1)).reshaped({capacity, 1});
    return Batch{{keys, values.rows(0, filled->rows), labels.rows(0, filled->rows)},
                 filled->rows,
                 filled->index};
  }

  ms::Device<R> device_;
  ms::support::BatchLayout layout_;
  std::vector<Staging> staged_;
  std::deque<Staging*> in_flight_;
  ms::support::BatchLoader loader_;
  ms::Prefetch<R, Batch> uploads_;
};

}  // namespace train_wdl
