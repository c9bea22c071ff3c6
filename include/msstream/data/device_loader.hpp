// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/loader.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/order/position.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/step/prefetch.hpp>
#include <msstream/stream/stream_group.hpp>
#include <msstream/tensor/detail/typed.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <source_location>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::data {

namespace detail {
class PinnedBatches;
}  // namespace detail

/// A batch of rows on the device, whose columns are views of two tensors, one of all floats and one
/// of all integers. Copies share the elements.
template <Runtime R = DefaultRuntime>
class DeviceBatch;

/// The implementation of DeviceBatch, the same for all runtimes.
template <>
class DeviceBatch<msstream::detail::AnyRuntime> {
 public:
  DeviceBatch(detail::StagedBatch const& staged,
              std::optional<msstream::detail::AnyTensor> floats,
              std::optional<msstream::detail::AnyTensor> ints);

  /// Returns the columns, after the transforms.
  [[nodiscard]] Schema const& schema() const noexcept { return *schema_; }
  /// Returns the number of rows of this rank. May be 0, in the last batch of an epoch of several
  /// ranks.
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  /// Returns the number of rows that the columns have: rows(), or the rows of a full batch with
  /// LastBatch::padded.
  [[nodiscard]] std::int64_t shape_rows() const noexcept { return shape_rows_; }
  /// Returns the number of the batch since the start of training, which is the same on all ranks.
  [[nodiscard]] std::int64_t index() const noexcept { return before_.batches; }
  /// Returns the number of the batch's epoch, from 0.
  [[nodiscard]] std::int64_t epoch() const noexcept { return before_.epoch; }
  /// Returns the number of the batch's first row among the rows of all ranks since the start of
  /// training. The other rows follow it.
  [[nodiscard]] std::int64_t first_sample() const noexcept { return first_sample_; }
  /// Returns the position behind the batch.
  [[nodiscard]] LoaderPosition const& after() const noexcept { return after_; }

  [[nodiscard]] msstream::detail::AnyTensor any_floats(std::string_view column) const;
  [[nodiscard]] msstream::detail::AnyTensor any_floats(std::string_view first,
                                                       std::string_view last) const;
  [[nodiscard]] msstream::detail::AnyTensor any_ints(std::string_view column) const;
  [[nodiscard]] msstream::detail::AnyTensor any_ints(std::string_view first,
                                                     std::string_view last) const;
  [[nodiscard]] msstream::detail::AnyTensor any_offsets(std::string_view column) const;
  [[nodiscard]] msstream::detail::AnyTensor any_groups() const;
  [[nodiscard]] msstream::detail::AnyTensor any_mask() const;

 private:
  friend detail::PinnedBatches;
  std::shared_ptr<Schema const> schema_;
  std::vector<detail::BatchPlace> places_;
  std::optional<msstream::detail::AnyTensor> floats_;
  std::optional<msstream::detail::AnyTensor> ints_;
  std::size_t mask_first_;
  detail::BatchPlace groups_;
  std::int64_t rows_;
  std::int64_t shape_rows_;
  std::int64_t first_sample_;
  LoaderPosition before_;
  LoaderPosition after_;
};

template <Runtime R>
class DeviceBatch : public DeviceBatch<msstream::detail::AnyRuntime> {
  using Body = DeviceBatch<msstream::detail::AnyRuntime>;

 public:
  /// Gives a batch its runtime type. For use by the library only.
  explicit DeviceBatch(Body body) : Body(std::move(body)) {}

  /// Returns the values of a float32 column: [rows] if its width is 1, [rows, width] otherwise, and
  /// all values of a jagged one. Throws std::invalid_argument for a column of another type, and if
  /// there is no such column.
  [[nodiscard]] Tensor<float, R> floats(std::string_view column) const {
    return {msstream::detail::OfKnownType(), this->any_floats(column)};
  }
  /// Returns the floats of the columns from `first` to `last` of the schema, one column after the
  /// other, those between them that have integers left out: [labels, rows] of labels of width 1, in
  /// one dimension. Throws std::invalid_argument for other and for jagged columns.
  [[nodiscard]] Tensor<float, R> floats(std::string_view first, std::string_view last) const {
    return {msstream::detail::OfKnownType(), this->any_floats(first, last)};
  }
  /// Returns the values of a column of type int64 or hashed: [rows] if its width is 1, [rows,
  /// width] otherwise, and all values of a jagged one. Throws std::invalid_argument for a column of
  /// another type, and if there is no such column.
  [[nodiscard]] Tensor<std::int64_t, R> ints(std::string_view column) const {
    return {msstream::detail::OfKnownType(), this->any_ints(column)};
  }
  /// Returns the integers of the columns from `first` to `last` of the schema, one column after the
  /// other, those between them that have floats left out: the layout of the ids of
  /// ops::EmbeddingTables. Throws std::invalid_argument for other and for jagged columns.
  [[nodiscard]] Tensor<std::int64_t, R> ints(std::string_view first, std::string_view last) const {
    return {msstream::detail::OfKnownType(), this->any_ints(first, last)};
  }
  /// Returns the offsets of a jagged column, [rows + 1]. Throws std::invalid_argument for another
  /// column, and if there is no such column.
  [[nodiscard]] Tensor<std::int64_t, R> offsets(std::string_view column) const {
    return {msstream::detail::OfKnownType(), this->any_offsets(column)};
  }
  /// Returns the offsets of the groups of LoaderOptions::group, as Batch::groups(), for lists of
  /// metrics and losses. Throws std::invalid_argument for a loader without groups.
  [[nodiscard]] Tensor<std::int64_t, R> groups() const {
    return {msstream::detail::OfKnownType(), this->any_groups()};
  }
  /// Returns 1 for each of the rows() rows, and 0 for the zeros that follow them with
  /// LastBatch::padded: [shape_rows()]. As weights of a loss and of metrics, in a step that is
  /// captured with the shape of full batches, it leaves the zeros out.
  [[nodiscard]] Tensor<float, R> mask() const {
    return {msstream::detail::OfKnownType(), this->any_mask()};
  }
};

namespace detail {

/// The batches of a loader in pinned memory, those of which copies are in flight, and the work on
/// those that were given.
class PinnedBatches {
 public:
  using AnyBatch = DeviceBatch<msstream::detail::AnyRuntime>;

  PinnedBatches(std::shared_ptr<msstream::detail::DeviceState> device,
                std::shared_ptr<Reader> reader,
                LoaderOptions const& options);
  PinnedBatches(PinnedBatches const&) = delete;
  PinnedBatches& operator=(PinnedBatches const&) = delete;
  ~PinnedBatches();

  /// Issues the copies of the next batch, on the h2d stream of the current group. Blocks until the
  /// batch is made.
  [[nodiscard]] std::optional<AnyBatch> upload(std::source_location issued_at);
  /// Notes a batch that the user gets.
  void note_given(AnyBatch const& batch) { given_ = batch; }
  /// Blocks the host until the work that was issued on batches in front of the last
  /// `unfinished_batches` is complete. Work on the last batch that was given counts as issued.
  void await_earlier();
  [[nodiscard]] Loader& loader() noexcept { return loader_; }

 private:
  void recycle_oldest();

  std::shared_ptr<msstream::detail::DeviceState> device_;
  std::size_t unfinished_batches_;
  std::optional<AnyBatch> given_;  ///< the last batch, until the next one is requested
  /// The positions of streams behind the operations that use the batches that may not be finished,
  /// oldest first.
  std::deque<std::vector<order::Position>> unfinished_;
  std::deque<Batch> in_flight_;
  Loader loader_;  ///< declared last: its threads must not write memory that is being copied
};

}  // namespace detail

/// A Loader whose batches are in pinned memory, and are copied to the device ahead of their use:
/// the copies of each batch are issued on the group's h2d stream before the batch in front of it is
/// returned. Work on a batch waits for the copies of that batch alone. For use by one thread.
template <Runtime R = DefaultRuntime>
class DeviceLoader {
 public:
  /// Starts the threads, and issues the copies of the first batch. Throws as the constructor of
  /// Loader, and what the reader throws.
  DeviceLoader(Device<R> const& device,
               StreamGroup<R> const& group,
               std::shared_ptr<Reader> reader,
               LoaderOptions const& options = {},
               std::source_location issued_at = std::source_location::current())
      : batches_(
            std::make_unique<detail::PinnedBatches>(device.state(), std::move(reader), options)),
        position_(batches_->loader().position()),
        uploads_(std::make_unique<Uploads>(
            group,
            [batches = batches_.get(), issued_at]() -> std::optional<DeviceBatch<R>> {
              auto batch = batches->upload(issued_at);
              return batch ? std::optional(DeviceBatch<R>(std::move(*batch))) : std::nullopt;
            },
            msstream::detail::PrefetchOptions(),
            issued_at)) {}
  /// Uses a reader that the caller owns, and that outlives the loader.
  DeviceLoader(Device<R> const& device,
               StreamGroup<R> const& group,
               Reader& reader,
               LoaderOptions const& options = {},
               std::source_location issued_at = std::source_location::current())
      : DeviceLoader(device,
                     group,
                     std::shared_ptr<Reader>(std::shared_ptr<Reader>(), &reader),
                     options,
                     issued_at) {}

  /// Returns the columns of the batches, after the transforms.
  [[nodiscard]] Schema const& schema() const noexcept { return batches_->loader().schema(); }

  /// Returns the next batch, or null after the last one. The copies of the batch after it are
  /// issued before the call returns. Blocks until the batches are made, until the copies of an
  /// earlier batch are complete, whose memory is used again, and until the work that uses the
  /// batches in front of the last LoaderOptions::unfinished_batches is complete; so a loop that
  /// reads no results does not run ahead of the device. Throws what Loader::next() throws, and
  /// failures of that work.
  [[nodiscard]] std::optional<DeviceBatch<R>> next(
      std::source_location issued_at = std::source_location::current()) {
    batches_->await_earlier();
    auto batch = uploads_->next(issued_at);
    if (batch) {
      batches_->note_given(*batch);
      position_ = batch->after();
    }
    return batch;
  }

  /// Returns the place behind the last batch that next() has returned, as LoaderOptions::start.
  [[nodiscard]] LoaderPosition const& position() const noexcept { return position_; }

 private:
  using Uploads = Prefetch<R, DeviceBatch<R>>;

  std::unique_ptr<detail::PinnedBatches> batches_;
  LoaderPosition position_;
  std::unique_ptr<Uploads> uploads_;
};

}  // namespace msstream::data
