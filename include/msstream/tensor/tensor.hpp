// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/device_declared.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <typeinfo>
#include <utility>

namespace msstream {

namespace detail {

/// Selects the constructor of Tensor for an AnyTensor that is known to have the Tensor's element
/// type and runtime type.
struct OfKnownType {
  explicit OfKnownType() = default;  // {} does not convert to it
};

}  // namespace detail

/// A dense row-major array in device memory. Holds shared ownership of a block of memory, which
/// records its uses, and a shape. Copies share the elements. When the last copy is destroyed, the
/// memory returns to the device's allocator, without an event or a wait even if work is in flight:
/// the allocator orders its next use after that work.
///
/// A handle is not synchronised; different handles of one tensor may be used by different threads.
template <Element T, Runtime R = DefaultRuntime>
class Tensor;

/// The implementation of Tensor<T, R>, the same for all runtimes R.
template <Element T>
class Tensor<T, detail::AnyRuntime> {
 public:
  using value_type = T;
  using runtime_type = detail::AnyRuntime;

  Tensor(std::shared_ptr<detail::DeviceState> const& device,
         Shape const& shape,
         StreamKind first_use = StreamKind::compute)
      : any_(device, dtype_of<T>, shape, first_use) {}
  /// Gives an untyped tensor the element type T. Throws std::invalid_argument if its elements are
  /// of another type.
  explicit Tensor(detail::AnyTensor any) : any_(std::move(any)) {
    detail::require_dtype(any_, dtype_of<T>);
  }
  Tensor(detail::OfKnownType, detail::AnyTensor any) noexcept : any_(std::move(any)) {}

  /// Returns the device address of the first element, for operations that declare the tensor.
  [[nodiscard]] T* data() const noexcept { return any_.template data_as<T>(); }
  /// Returns the dimensions, outermost first.
  [[nodiscard]] Shape const& shape() const noexcept { return any_.shape(); }
  /// Returns the number of elements.
  [[nodiscard]] std::int64_t count() const noexcept { return any_.count(); }
  /// Returns the size of all elements in bytes.
  [[nodiscard]] std::size_t bytes() const noexcept {
    return static_cast<std::size_t>(count()) * sizeof(T);
  }
  [[nodiscard]] std::shared_ptr<detail::DeviceState> const& device() const noexcept {
    return any_.device();
  }

  /// Returns a view of the elements with another shape. Throws std::invalid_argument if the element
  /// counts differ.
  [[nodiscard]] Tensor reshaped(Shape const& shape) const {
    return {detail::OfKnownType(), any_.reshaped(shape)};
  }
  /// Returns a view of rows [begin, end) of the first dimension, which shares the elements.
  /// Accesses are tracked for the whole tensor.
  [[nodiscard]] Tensor rows(std::int64_t begin, std::int64_t end) const {
    return {detail::OfKnownType(), any_.rows(begin, end)};
  }

  /// Makes the tensor immutable: from now on reads are not tracked and cost nothing, from any
  /// number of threads. Blocks the host until the writes so far are complete. A later write through
  /// issue() throws std::logic_error.
  void freeze() { any_.freeze(); }
  /// Returns whether the tensor is frozen: its reads are not tracked, and writes are refused.
  [[nodiscard]] bool immutable() const noexcept { return any_.immutable(); }

  /// Returns a key that identifies the elements' memory, for maps from tensors: equal for handles
  /// that begin at the same address.
  [[nodiscard]] void const* identity() const noexcept { return any_.data(); }
  [[nodiscard]] memory::BlockRef const& block() const noexcept { return any_.block(); }
  [[nodiscard]] detail::AnyTensor const& any() const noexcept { return any_; }

 private:
  detail::AnyTensor any_;
};

template <Element T, Runtime R>
class Tensor : public Tensor<T, detail::AnyRuntime> {
  using Body = Tensor<T, detail::AnyRuntime>;

 public:
  using runtime_type = R;

  /// Makes a tensor with undefined elements. Its memory is chosen so that the stream `first_use` of
  /// the current group, or of the group where a pool is expected to place the thread's next
  /// operation, need not wait for it. Throws OutOfMemory.
  Tensor(Device<R> const& device, Shape const& shape, StreamKind first_use = StreamKind::compute)
      : Body(device.state(), shape, first_use) {}
  /// Makes a tensor with undefined elements on the device of another tensor. `first_use` is the
  /// stream of the first operation on the tensor. Throws OutOfMemory, and std::invalid_argument if
  /// the device's runtime type is not R.
  Tensor(std::shared_ptr<detail::DeviceState> const& device,
         Shape const& shape,
         StreamKind first_use = StreamKind::compute)
      : Tensor(Body(device, shape, first_use)) {}

  /// Makes a tensor whose elements are at the beginning of a block of memory. Throws
  /// std::invalid_argument if the shape needs more bytes than the block has, or if the runtime type
  /// of the block's device is not R.
  Tensor(memory::BlockRef block, Shape const& shape)
      : Tensor(detail::AnyTensor(std::move(block), dtype_of<T>, shape)) {}
  /// Gives an untyped tensor its types. For use by the library only. Throws std::invalid_argument
  /// if the element type is not T, or the runtime type of the tensor's device is not R.
  explicit Tensor(detail::AnyTensor any) : Tensor(Body(std::move(any))) {}
  /// Gives a tensor its runtime type. For use by the library only. Throws std::invalid_argument if
  /// the runtime type of the tensor's device is not R.
  explicit Tensor(Body any) : Body(std::move(any)) {
    detail::require_runtime(*this->device(), typeid(R));
  }
  Tensor(detail::OfKnownType known, detail::AnyTensor any) noexcept : Body(known, std::move(any)) {}
  Tensor(detail::OfKnownType, Body any) noexcept : Body(std::move(any)) {}

  [[nodiscard]] Tensor reshaped(Shape const& shape) const {
    return {detail::OfKnownType(), this->any().reshaped(shape)};
  }
  [[nodiscard]] Tensor rows(std::int64_t begin, std::int64_t end) const {
    return {detail::OfKnownType(), this->any().rows(begin, end)};
  }
};

}  // namespace msstream
