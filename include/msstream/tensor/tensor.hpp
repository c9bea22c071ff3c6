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

/// Marks an AnyTensor that is known to have the types of the Tensor made from it.
struct OfKnownType {
  explicit OfKnownType() = default;  // so that {} is none
};

}  // namespace detail

/// A dense row-major array in device memory: shared ownership of a block, a shape, and, in the
/// block, the record of its uses. Copies share the elements. When the last copy is destroyed, the
/// memory returns to the device's allocator, which keeps the order of uses: no event and no wait,
/// even with work in flight.
///
/// A handle is not synchronised; different handles of one tensor may be used by different threads.
template <Element T, Runtime R = DefaultRuntime>
class Tensor;

/// The body of the tensors of one element type, and their members that do not depend on the
/// runtime.
template <Element T>
class Tensor<T, detail::AnyRuntime> {
 public:
  using value_type = T;
  using runtime_type = detail::AnyRuntime;

  Tensor(std::shared_ptr<detail::DeviceState> const& device,
         Shape const& shape,
         StreamKind first_use = StreamKind::compute)
      : any_(device, dtype_of<T>, shape, first_use) {}
  /// Throws std::invalid_argument if the tensor has another element type.
  explicit Tensor(detail::AnyTensor any) : any_(std::move(any)) {
    detail::require_dtype(any_, dtype_of<T>);
  }
  Tensor(detail::OfKnownType, detail::AnyTensor any) noexcept : any_(std::move(any)) {}

  /// Returns the device address of the first element, for operations that declare the tensor.
  [[nodiscard]] T* data() const noexcept { return any_.template data_as<T>(); }
  [[nodiscard]] Shape const& shape() const noexcept { return any_.shape(); }
  [[nodiscard]] std::int64_t count() const noexcept { return any_.count(); }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return static_cast<std::size_t>(count()) * sizeof(T);
  }
  [[nodiscard]] std::shared_ptr<detail::DeviceState> const& device() const noexcept {
    return any_.device();
  }

  /// Returns a view with another shape. Throws std::invalid_argument if the element counts differ.
  [[nodiscard]] Tensor reshaped(Shape const& shape) const {
    return {detail::OfKnownType(), any_.reshaped(shape)};
  }
  /// Returns rows [begin, end) of the first dimension, which share the elements. Accesses are
  /// tracked for the whole tensor.
  [[nodiscard]] Tensor rows(std::int64_t begin, std::int64_t end) const {
    return {detail::OfKnownType(), any_.rows(begin, end)};
  }

  /// Makes the tensor immutable: from now on reads are not tracked and cost nothing, from any
  /// number of threads. Blocks the host until the writes so far are complete. A later write through
  /// issue() throws std::logic_error.
  void freeze() { any_.freeze(); }
  [[nodiscard]] bool immutable() const noexcept { return any_.immutable(); }

  /// Returns a key for the elements, for maps from tensors: equal for handles of the same memory.
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
  /// Like the constructor above, on the device of another tensor. Throws std::invalid_argument if
  /// that device is of another runtime type.
  Tensor(std::shared_ptr<detail::DeviceState> const& device,
         Shape const& shape,
         StreamKind first_use = StreamKind::compute)
      : Tensor(Body(device, shape, first_use)) {}

  /// Makes a tensor over a block. Throws std::invalid_argument if the shape needs more bytes, or if
  /// the block's device is of another runtime type.
  Tensor(memory::BlockRef block, Shape const& shape)
      : Tensor(detail::AnyTensor(std::move(block), dtype_of<T>, shape)) {}
  /// For the library itself. Throws std::invalid_argument if the tensor has other types.
  explicit Tensor(detail::AnyTensor any) : Tensor(Body(std::move(any))) {}
  /// For the library itself. Throws std::invalid_argument if the device has another runtime type.
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
