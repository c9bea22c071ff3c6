// SPDX-License-Identifier: Apache-2.0
#include "base/mechanism.hpp"
#include "memory/device/device_state.hpp"
#include "memory/device/open_capture.hpp"
#include "memory/device/synchronize_uses.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/format.hpp>
#include <msstream/tensor/detail/any_pinned_array.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>

namespace msstream::detail {
namespace {

std::size_t bytes_for(DType dtype, Shape const& shape) {
  return memory::bytes_of_array(static_cast<std::size_t>(shape.count()), bytes_of(dtype));
}

}  // namespace

AnyTensor::AnyTensor(std::shared_ptr<DeviceState> const& device,
                     DType dtype,
                     Shape const& shape,
                     StreamKind first_use)
    : block_(device->allocate(bytes_for(dtype, shape), first_use, device)),
      data_(block_->data),
      shape_(shape),
      dtype_(dtype) {}

AnyTensor::AnyTensor(memory::BlockRef block, DType dtype, Shape const& shape)
    : block_(std::move(block)), data_(block_->data), shape_(shape), dtype_(dtype) {
  require(block_->bytes >= bytes_for(dtype, shape),
          "a tensor of shape {} has {} bytes; the block has {}",
          shape,
          bytes_for(dtype, shape),
          block_->bytes);
}

std::shared_ptr<DeviceState> const& AnyTensor::device() const noexcept {
  return *block_->device;
}

Backend& AnyTensor::backend() const noexcept {
  return *device()->context->runtime;
}

AnyTensor AnyTensor::reshaped(Shape const& shape) const {
  require(
      shape.count() == count(), "reshape of {} to {}: the element counts differ", shape_, shape);
  AnyTensor view = *this;
  view.shape_ = shape;
  return view;
}

AnyTensor AnyTensor::rows(std::int64_t begin, std::int64_t end) const {
  require(shape_.rank() >= 1 && 0 <= begin && begin <= end && end <= shape_[0],
          "rows [{}, {}) of a tensor of shape {}",
          begin,
          end,
          shape_);
  AnyTensor view = *this;
  view.shape_ = shape_.with_first(end - begin);
  if (shape_[0] != 0) {
    view.data_ += static_cast<std::size_t>(begin * (count() / shape_[0])) * bytes_of(dtype_);
  }
  return view;
}

void AnyTensor::freeze(std::string_view name) const {
  synchronize_uses(*block_, AccessMode::read, "Tensor::freeze");
  device()->run_checks();
  if (!name.empty()) {
    auto shared = std::make_shared<std::string const>(name);
    std::lock_guard const guard(block_->record.lock);
    block_->name = std::move(shared);
  }
  block_->immutable = true;
}

void AnyTensor::unfreeze(std::string_view name) const {
  auto const& context = *device()->context;
  context.home.require_here();
  auto* const capture = OpenCapture::current(context);
  if (capture != nullptr && capture->uses(*block_)) {
    throw std::logic_error(fmt::format(
        "unfreeze: \"{}\" of shape {} is used in a capture, in which it is frozen", name, shape_));
  }
  if (!block_->immutable) {
    return;
  }
  auto shared = std::make_shared<std::string const>(name);
  auto const newest = context.tracker->newest_positions();
  {
    std::lock_guard const guard(block_->record.lock);
    if (works(Mechanism::reuse_of_frozen)) {
      for (auto const& position : newest) {
        block_->record.log.note_read(position);
      }
    }
    block_->name = std::move(shared);
  }
  block_->unfreezes.fetch_add(1);
  block_->immutable = false;
}

bool AnyTensor::immutable() const noexcept {
  return block_->immutable;
}

void require_dtype(AnyTensor const& tensor, DType dtype) {
  require(tensor.dtype() == dtype, "a tensor of {} is used as one of {}", tensor.dtype(), dtype);
}

void require_runtime(DeviceState const& device, std::type_info const& runtime_type) {
  auto const& traits = device.context->runtime->traits;
  require(*traits.type == runtime_type,
          "memory of a device of the runtime '{}' is used as memory of a device of another runtime "
          "type",
          traits.name);
}

}  // namespace msstream::detail
