// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/base/shape.hpp>
#include <msstream/memory/detail/block_ref.hpp>
#include <msstream/stream/stream_kind.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <typeinfo>
#include <utility>

namespace msstream::detail {

class Backend;
struct DeviceState;

/// The implementation of Tensor<T, R>, compiled once for all element types and runtimes; Tensor
/// documents the functions.
class AnyTensor {
 public:
  AnyTensor(std::shared_ptr<DeviceState> const& device,
            DType dtype,
            Shape const& shape,
            StreamKind first_use = StreamKind::compute);
  AnyTensor(memory::BlockRef block, DType dtype, Shape const& shape);

  [[nodiscard]] void* data() const noexcept { return data_; }
  /// Returns the device address of the first element. The tensor must have element type T.
  template <Element T>
  [[nodiscard]] T* data_as() const noexcept {
    return reinterpret_cast<T*>(data_);
  }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] Shape const& shape() const noexcept { return shape_; }
  [[nodiscard]] std::int64_t count() const noexcept { return shape_.count(); }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return static_cast<std::size_t>(count()) * bytes_of(dtype_);
  }
  [[nodiscard]] std::shared_ptr<DeviceState> const& device() const noexcept;
  [[nodiscard]] Backend& backend() const noexcept;

  [[nodiscard]] AnyTensor reshaped(Shape const& shape) const;
  [[nodiscard]] AnyTensor rows(std::int64_t begin, std::int64_t end) const;
  /// Makes the tensor immutable; Tensor::freeze() documents it. Messages contain the name, if any.
  void freeze(std::string_view name = {}) const;
  /// Lets the tensor be written again, after all work issued so far, whose reads of it were not
  /// tracked. Captured steps that used it while it was frozen throw when they are replayed. Does
  /// not block the host. No other thread may use the tensor meanwhile. Throws std::logic_error if
  /// the calling thread's capture uses the tensor.
  void unfreeze(std::string_view name) const;
  [[nodiscard]] bool immutable() const noexcept;
  [[nodiscard]] memory::BlockRef const& block() const noexcept { return block_; }

 private:
  memory::BlockRef block_;
  std::byte* data_;
  Shape shape_;
  DType dtype_;
};

/// Throws std::invalid_argument unless the tensor's element type is `dtype`.
void require_dtype(AnyTensor const& tensor, DType dtype);
/// Throws std::invalid_argument unless the device's runtime is of type `runtime_type`.
void require_runtime(DeviceState const& device, std::type_info const& runtime_type);

}  // namespace msstream::detail
