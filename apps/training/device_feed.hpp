// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/batch_loader.hpp"

#include <msstream/msstream.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace msstream::training {

/// One batch on the device. In a short batch, the rows after the used ones are zero up to the
/// capacity.
template <Runtime R>
struct DeviceRows {
  Tensor<std::int64_t, R> keys;  ///< [fields, capacity, hotness]
  Tensor<float, R> continuous;   ///< [capacity, continuous]
  Tensor<float, R> labels;       ///< [labels, capacity]
  std::int64_t rows;             ///< number of used rows, at most the capacity
  std::int64_t index;            ///< number of the batch since the start of training
};

/// Copies batches to the device ahead of their use. Worker threads fill pinned buffers, and the
/// copies of each batch are issued on the group's h2d stream one batch before it is requested.
template <Runtime R>
class DeviceFeed {
 public:
  using Batch = DeviceRows<R>;

  DeviceFeed(Device<R> device,
             datasets::Dataset const& dataset,
             datasets::BatchPlan plan,
             std::int64_t first_batch,
             int threads,
             StreamGroup<R> const& group)
      : device_(std::move(device)),
        layout_(dataset.schema(), static_cast<std::size_t>(plan.batch_size)),
        staged_(make_staging()),
        loader_(dataset,
                std::move(plan),
                buffers_of(staged_),
                {.threads = static_cast<std::size_t>(threads), .first_batch = first_batch}),
        uploads_(group, [this] { return upload(); }) {}

  /// Returns the next batch, and has then issued the copies of the batch after it. Empty after the
  /// last.
  [[nodiscard]] std::optional<Batch> next() { return uploads_.next(); }

 private:
  static constexpr std::size_t kStagingBuffers = 6;
  static constexpr std::size_t kInFlight = 3;

  /// The buffers of one batch in pinned memory. `floats` holds the continuous values, then the
  /// labels.
  struct Staging {
    PinnedArray<std::int64_t, R> keys;
    PinnedArray<float, R> floats;
    datasets::StagedBatch batch;

    /// Declares that the host writes the buffers, since a checking runtime does not see the
    /// loader's threads write through their addresses.
    void host_writes() const {
      keys.host_writes();
      floats.host_writes();
    }
  };

  std::vector<Staging> make_staging() {
    std::vector<Staging> staging;
    for (std::size_t i = 0; i < kStagingBuffers; ++i) {
      PinnedArray<std::int64_t, R> keys(device_, layout_.key_count());
      PinnedArray<float, R> floats(device_, layout_.continuous_count() + layout_.label_count());
      datasets::StagedBatch const batch{
          keys.data(), floats.data(), floats.data() + layout_.continuous_count()};
      staging.push_back({std::move(keys), std::move(floats), batch});
      staging.back().host_writes();
    }
    return staging;
  }
  static std::vector<datasets::StagedBatch*> buffers_of(std::vector<Staging>& staging) {
    std::vector<datasets::StagedBatch*> buffers;
    buffers.reserve(staging.size());
    for (auto& stage : staging) {
      buffers.push_back(&stage.batch);
    }
    return buffers;
  }

  Staging& stage_of(datasets::StagedBatch const* batch) {
    return *std::find_if(staged_.begin(), staged_.end(), [&](Staging const& stage) {
      return &stage.batch == batch;
    });
  }

  /// Waits for the copies of the oldest batch, which have usually been complete for long, and lets
  /// the loader fill its buffer again.
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
    auto const capacity = static_cast<std::int64_t>(layout_.capacity);
    auto const continuous = static_cast<std::int64_t>(layout_.continuous_count());
    auto const labels = static_cast<std::int64_t>(layout_.label_count());
    NameScope const name("feed");
    Tensor<std::int64_t, R> keys(device_, {static_cast<std::int64_t>(layout_.key_count())});
    Tensor<float, R> floats(device_, {continuous + labels});
    copy(keys, stage.keys);
    copy(floats, stage.floats);
    return Batch{keys.reshaped({static_cast<std::int64_t>(layout_.fields),
                                capacity,
                                static_cast<std::int64_t>(layout_.hotness)}),
                 floats.rows(0, continuous)
                     .reshaped({capacity, static_cast<std::int64_t>(layout_.continuous)}),
                 floats.rows(continuous, continuous + labels)
                     .reshaped({static_cast<std::int64_t>(layout_.labels), capacity}),
                 filled->rows,
                 filled->index};
  }

  Device<R> device_;
  datasets::BatchLayout layout_;
  std::vector<Staging> staged_;
  std::deque<Staging*> in_flight_;
  datasets::BatchLoader loader_;
  Prefetch<R, Batch> uploads_;
};

}  // namespace msstream::training
