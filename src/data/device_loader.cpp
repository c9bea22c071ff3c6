// SPDX-License-Identifier: Apache-2.0
#include "memory/device/synchronize_uses.hpp"

#include <msstream/data/device_loader.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/detail/any_pinned_array.hpp>
#include <msstream/trace/name_scope.hpp>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace msstream::data {

using msstream::detail::AnyPinnedArray;
using msstream::detail::AnyTensor;

namespace {

/// Pinned memory of one batch. Grows in the thread that makes the batch, when no copy of the memory
/// is in flight.
class PinnedMemory final : public detail::BatchMemory {
 public:
  explicit PinnedMemory(std::shared_ptr<msstream::detail::DeviceState> device)
      : device_(std::move(device)) {}

  std::int64_t* ints(std::size_t count) override {
    return static_cast<std::int64_t*>(grown(ints_, count, sizeof(std::int64_t)));
  }
  float* floats(std::size_t count) override {
    return static_cast<float*>(grown(floats_, count, sizeof(float)));
  }
  [[nodiscard]] AnyPinnedArray const& int_array() const { return *ints_; }
  [[nodiscard]] AnyPinnedArray const& float_array() const { return *floats_; }

  /// Blocks the host until the copies are complete. A checking runtime does not see the loader's
  /// threads write through addresses, and is told that the host writes next.
  void wait() const {
    for (auto const* array : {&ints_, &floats_}) {
      if (*array) {
        (*array)->wait("DeviceLoader::next");
        (*array)->host_uses(AccessMode::write);
      }
    }
  }

 private:
  void* grown(std::optional<AnyPinnedArray>& array, std::size_t count, std::size_t element_bytes) {
    if (count > 0 && (!array || array->count() < count)) {
      // Leaves room for jagged columns that grow a little from batch to batch.
      auto const more = array ? count + count / 4 : count;
      array.reset();
      array.emplace(device_, more, element_bytes);
      array->host_uses(AccessMode::write);
    }
    return array ? array->data() : nullptr;
  }

  std::shared_ptr<msstream::detail::DeviceState> device_;
  std::optional<AnyPinnedArray> ints_;
  std::optional<AnyPinnedArray> floats_;
};

AnyTensor part_of(AnyTensor const& all, std::size_t first, std::size_t count) {
  return all.rows(static_cast<std::int64_t>(first), static_cast<std::int64_t>(first + count));
}

}  // namespace

DeviceBatch<msstream::detail::AnyRuntime>::DeviceBatch(detail::StagedBatch const& staged,
                                                       std::optional<AnyTensor> floats,
                                                       std::optional<AnyTensor> ints)
    : schema_(staged.schema),
      places_(staged.places),
      floats_(std::move(floats)),
      ints_(std::move(ints)),
      mask_first_(staged.mask_first),
      groups_(staged.groups),
      rows_(staged.rows),
      shape_rows_(staged.shape_rows),
      first_sample_(staged.first_sample),
      before_(staged.before),
      after_(staged.after) {}

AnyTensor DeviceBatch<msstream::detail::AnyRuntime>::any_floats(std::string_view column) const {
  auto const index = detail::index_with_part(*schema_, column, detail::ColumnPart::floats);
  auto const& found = schema_->columns()[index];
  auto const values = part_of(floats_.value(), places_[index].first, places_[index].count);
  return found.width > 1 ? values.reshaped({shape_rows_, found.width}) : values;
}

AnyTensor DeviceBatch<msstream::detail::AnyRuntime>::any_ints(std::string_view column) const {
  auto const index = detail::index_with_part(*schema_, column, detail::ColumnPart::ints);
  auto const& found = schema_->columns()[index];
  auto const values = part_of(ints_.value(), places_[index].first, places_[index].count);
  return found.width > 1 ? values.reshaped({shape_rows_, found.width}) : values;
}

AnyTensor DeviceBatch<msstream::detail::AnyRuntime>::any_floats(std::string_view first,
                                                                std::string_view last) const {
  auto const place = detail::place_of(*schema_, places_, first, last, detail::ColumnPart::floats);
  return part_of(floats_.value(), place.first, place.count);
}

AnyTensor DeviceBatch<msstream::detail::AnyRuntime>::any_ints(std::string_view first,
                                                              std::string_view last) const {
  auto const place = detail::place_of(*schema_, places_, first, last, detail::ColumnPart::ints);
  return part_of(ints_.value(), place.first, place.count);
}

AnyTensor DeviceBatch<msstream::detail::AnyRuntime>::any_offsets(std::string_view column) const {
  auto const index = detail::index_with_part(*schema_, column, detail::ColumnPart::offsets);
  return part_of(
      ints_.value(), places_[index].first_offset, static_cast<std::size_t>(shape_rows_) + 1);
}

AnyTensor DeviceBatch<msstream::detail::AnyRuntime>::any_groups() const {
  auto const& place = detail::require_groups(groups_);
  return part_of(ints_.value(), place.first, place.count);
}

AnyTensor DeviceBatch<msstream::detail::AnyRuntime>::any_mask() const {
  return part_of(floats_.value(), mask_first_, static_cast<std::size_t>(shape_rows_));
}

namespace detail {

PinnedBatches::PinnedBatches(std::shared_ptr<msstream::detail::DeviceState> device,
                             std::shared_ptr<Reader> reader,
                             LoaderOptions const& options)
    : device_(std::move(device)),
      unfinished_batches_(static_cast<std::size_t>(options.unfinished_batches)),
      loader_(std::move(reader), options, [device = device_] {
        return std::make_unique<PinnedMemory>(device);
      }) {}

PinnedBatches::~PinnedBatches() = default;

void PinnedBatches::await_earlier() {
  auto& tracker = *device_->context->tracker;
  if (given_) {
    auto& uses = unfinished_.emplace_back();
    for (auto const* tensor : {&given_->floats_, &given_->ints_}) {
      if (*tensor) {
        for (auto const& use : msstream::detail::uses_to_await(
                 *(*tensor)->block(), AccessMode::write, "DeviceLoader::next")) {
          tracker.want_event(use);  // so that the wait covers no work on later batches
          uses.push_back(use);
        }
      }
    }
    given_.reset();
  }
  while (unfinished_.size() > unfinished_batches_) {
    for (auto const& use : unfinished_.front()) {
      tracker.synchronize(use);
    }
    unfinished_.pop_front();
  }
}

void PinnedBatches::recycle_oldest() {
  auto const batch = std::move(in_flight_.front());
  in_flight_.pop_front();
  static_cast<PinnedMemory const&>(*batch.staged().memory).wait();
}

std::optional<DeviceBatch<msstream::detail::AnyRuntime>> PinnedBatches::upload(
    std::source_location issued_at) {
  constexpr std::size_t most_in_flight = 3;
  if (in_flight_.size() == most_in_flight) {
    recycle_oldest();
  }
  auto const batch = loader_.next();
  if (!batch) {
    return std::nullopt;
  }
  in_flight_.push_back(*batch);
  auto const& staged = batch->staged();
  auto const& memory = static_cast<PinnedMemory const&>(*staged.memory);
  NameScope const name("batch");
  auto const uploaded =
      [&](DType dtype, std::size_t count, auto&& array) -> std::optional<AnyTensor> {
    if (count == 0) {
      // Columns without values are views of a tensor without elements.
      return AnyTensor(device_, dtype, {0}, StreamKind::h2d);
    }
    AnyTensor tensor(device_, dtype, {static_cast<std::int64_t>(count)}, StreamKind::h2d);
    msstream::detail::copy_to_device(tensor, array(), issued_at);
    return tensor;
  };
  auto floats = uploaded(
      DType::float32, staged.float_count, [&]() -> auto& { return memory.float_array(); });
  auto ints = uploaded(
      DType::int64, staged.int_count, [&]() -> auto& { return memory.int_array(); });
  return DeviceBatch<msstream::detail::AnyRuntime>(staged, std::move(floats), std::move(ints));
}

}  // namespace detail

}  // namespace msstream::data
