// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/base/shape.hpp>
#include <msstream/memory/detail/block_ref.hpp>
#include <msstream/stream/stream_kind.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <typeinfo>
#include <utility>

namespace msstream::detail {

class Backend;
struct DeviceState;

/// The body of every Tensor<T, R>, whatever the element type and the runtime: see Tensor, whose
/// functions these are.
class AnyTensor {
 public:
  AnyTensor(std::shared_ptr<DeviceState> const& device,
            DType dtype,
            Shape const& shape,
            StreamKind first_use = StreamKind::compute);
  AnyTensor(memory::BlockRef block, DType dtype, Shape const& shape);

  [[nodiscard]] void* data() const noexcept { return data_; }
  /// Returns the address of the elements, which must be of type T.
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
  void freeze() const;
  [[nodiscard]] bool immutable() const noexcept;
  [[nodiscard]] memory::BlockRef const& block() const noexcept { return block_; }

 private:
  memory::BlockRef block_;
  std::byte* data_;
  Shape shape_;
  DType dtype_;
};

/// Throws std::invalid_argument unless the tensor has this element type.
void require_dtype(AnyTensor const& tensor, DType dtype);
/// Throws std::invalid_argument unless the device has this runtime type.
void require_runtime(DeviceState const& device, std::type_info const& runtime_type);

}  // namespace msstream::detail
