// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/base/shape.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/memory/synchronize_uses.hpp>
#include <msstream/runtime/compiled_once.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>

namespace msstream {

/// A dense row-major array in device memory: shared ownership of a block, a shape, and, in the
/// block, the record of its uses. Copies share the elements. When the last copy is destroyed, the
/// memory returns to the device's allocator, which keeps the order of uses: no event and no wait,
/// even with work in flight.
///
/// A handle is not synchronised; different handles of one tensor may be used by different threads.
template <Element T, Runtime R = DefaultRuntime>
class Tensor {
 public:
  using value_type = T;
  using runtime_type = R;

  /// Makes a tensor with undefined elements. Its memory is chosen so that the stream `first_use` of
  /// the current group, or of the group where a pool is expected to place the thread's next
  /// operation, need not wait for it. Throws OutOfMemory.
  Tensor(Device<R> const& device, Shape const& shape, StreamKind first_use = StreamKind::compute)
      : Tensor(device.state(), shape, first_use) {}
  Tensor(std::shared_ptr<DeviceState<R>> const& device,
         Shape const& shape,
         StreamKind first_use = StreamKind::compute)
      : block_(device->allocate(bytes_for(shape), first_use, device)),
        data_(reinterpret_cast<T*>(block_->data)),
        shape_(shape) {}

  /// Makes a tensor over a block. Throws std::invalid_argument if the shape needs more bytes.
  Tensor(memory::BlockRef<R> block, Shape const& shape)
      : block_(std::move(block)), data_(reinterpret_cast<T*>(block_->data)), shape_(shape) {
    require(block_->bytes >= bytes_for(shape),
            "a tensor of shape ",
            shape,
            " has ",
            bytes_for(shape),
            " bytes; the block has ",
            block_->bytes);
  }

  /// Returns the device address of the first element, for operations that declare the tensor.
  [[nodiscard]] T* data() const noexcept { return data_; }
  [[nodiscard]] Shape const& shape() const noexcept { return shape_; }
  [[nodiscard]] std::int64_t count() const noexcept { return shape_.count(); }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return static_cast<std::size_t>(count()) * sizeof(T);
  }
  [[nodiscard]] std::shared_ptr<DeviceState<R>> const& device() const noexcept {
    return *block_->device;
  }

  /// Returns a view with another shape. Throws std::invalid_argument if the element counts differ.
  [[nodiscard]] Tensor reshaped(Shape const& shape) const {
    require(shape.count() == count(),
            "reshape of ",
            shape_,
            " to ",
            shape,
            ": the element counts differ");
    Tensor view = *this;
    view.shape_ = shape;
    return view;
  }
  /// Returns rows [begin, end) of the first dimension, which share the elements. Accesses are
  /// tracked for the whole tensor.
  [[nodiscard]] Tensor rows(std::int64_t begin, std::int64_t end) const {
    require(shape_.rank() >= 1 && 0 <= begin && begin <= end && end <= shape_[0],
            "rows [",
            begin,
            ", ",
            end,
            ") of a tensor of shape ",
            shape_);
    Tensor view = *this;
    view.shape_ = shape_.with_first(end - begin);
    view.data_ += shape_[0] == 0 ? 0 : begin * (count() / shape_[0]);
    return view;
  }

  /// Makes the tensor immutable: from now on reads are not tracked and cost nothing, from any
  /// number of threads. Blocks the host until the writes so far are complete. A later write through
  /// issue() throws std::logic_error.
  void freeze() {
    synchronize_uses(*block_, AccessMode::read, "Tensor::freeze");
    device()->run_checks();
    block_->immutable = true;
  }
  [[nodiscard]] bool immutable() const noexcept { return block_->immutable; }

  /// Returns a key for the elements, for maps from tensors: equal for handles of the same memory.
  [[nodiscard]] void const* identity() const noexcept { return data_; }
  [[nodiscard]] memory::BlockRef<R> const& block() const noexcept { return block_; }

 private:
  static std::size_t bytes_for(Shape const& shape) {
    return memory::bytes_of_array(static_cast<std::size_t>(shape.count()), sizeof(T));
  }

  memory::BlockRef<R> block_;
  T* data_;
  Shape shape_;
};

MSSTREAM_COMPILED_ONCE(class Tensor<float, DefaultRuntime>);
MSSTREAM_COMPILED_ONCE(class Tensor<std::int32_t, DefaultRuntime>);
MSSTREAM_COMPILED_ONCE(class Tensor<std::int64_t, DefaultRuntime>);
MSSTREAM_COMPILED_ONCE(class Tensor<bfloat16, DefaultRuntime>);
MSSTREAM_COMPILED_ONCE(class Tensor<float16, DefaultRuntime>);

}  // namespace msstream
