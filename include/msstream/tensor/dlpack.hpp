// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Conversion of tensors to and from other libraries without a copy, through DLPack's
/// DLManagedTensor. Optional: this file is empty if <dlpack/dlpack.h> is not installed, and
/// <msstream/msstream.hpp> does not include it.

#if __has_include(<dlpack/dlpack.h>)

#include <msstream/memory/detail/adopt.hpp>
#include <msstream/tensor/detail/dlpack_refusals.hpp>
#include <msstream/tensor/detail/exchange.hpp>
#include <msstream/tensor/tensor.hpp>
#include <msstream/tensor/tensor_holder.hpp>

#include <dlpack/dlpack.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <utility>

namespace msstream {

namespace detail {

template <Element T>
[[nodiscard]] constexpr DLDataType dlpack_dtype() noexcept {
  constexpr std::uint8_t bits = 8 * sizeof(T);
  switch (dtype_of<T>) {
    case DType::float32:
    case DType::float16:
      return {kDLFloat, bits, 1};
    case DType::bfloat16:
      return {kDLBfloat, bits, 1};
    case DType::int32:
    case DType::int64:
      return {kDLInt, bits, 1};
    case DType::uint8:
      break;
  }
  return {kDLUInt, bits, 1};
}

[[nodiscard]] inline DLDevice dlpack_device(Backend& runtime) noexcept {
  auto const ordinal = runtime.ordinal();
  return ordinal < 0 ? DLDevice{kDLCPU, 0} : DLDevice{kDLCUDA, ordinal};
}

/// A DLManagedTensor for export, with the tensor, extents and strides that it owns.
template <Element T, Runtime R>
struct ExportedTensor {
  explicit ExportedTensor(Tensor<T, R> const& exported)
      : tensor(exported),
        managed{
            {tensor.data(),
             dlpack_device(tensor.any().backend()),
             static_cast<int>(tensor.shape().rank()),
             dlpack_dtype<T>(),
             extents.data(),
             strides.data(),
             0},
            this,
            [](DLManagedTensor* self) { delete static_cast<ExportedTensor*>(self->manager_ctx); }} {
    std::int64_t stride = 1;
    for (std::size_t i = tensor.shape().rank(); i-- > 0;) {
      extents[i] = tensor.shape()[i];
      strides[i] = stride;
      stride *= extents[i];
    }
  }

  Tensor<T, R> tensor;
  std::array<std::int64_t, Shape::kMaxRank> extents{};
  std::array<std::int64_t, Shape::kMaxRank> strides{};
  DLManagedTensor managed;
  std::optional<TensorHolder<R>> holder;
};

struct CallDeleter {
  void operator()(DLManagedTensor* managed) const noexcept {
    if (managed->deleter != nullptr) {
      managed->deleter(managed);
    }
  }
};
using OwnedManagedTensor = std::unique_ptr<DLManagedTensor, CallDeleter>;

[[nodiscard]] inline Shape shape_of(DLTensor const& foreign) {
  if (foreign.ndim < 0 || foreign.ndim > static_cast<int>(Shape::kMaxRank)) {
    refuse_dlpack_dimensions(foreign.ndim);
  }
  switch (foreign.ndim) {
    case 0:
      return {};
    case 1:
      return {foreign.shape[0]};
    case 2:
      return {foreign.shape[0], foreign.shape[1]};
    case 3:
      return {foreign.shape[0], foreign.shape[1], foreign.shape[2]};
    default:
      return {foreign.shape[0], foreign.shape[1], foreign.shape[2], foreign.shape[3]};
  }
}

inline void require_row_major(DLTensor const& foreign, Shape const& shape) {
  if (foreign.strides == nullptr || shape.count() == 0) {
    return;
  }
  std::int64_t expected = 1;
  for (std::size_t i = shape.rank(); i-- > 0;) {
    if (shape[i] != 1 && foreign.strides[i] != expected) {
      refuse_dlpack_stride(foreign.strides[i], i, shape, expected);
    }
    expected *= shape[i];
  }
}

}  // namespace detail

/// Exports the tensor to another library, which then shares its elements. Blocks the host until the
/// tensor's uses so far are complete. The memory is kept until the consumer calls the deleter; by
/// then the consumer's own work must be complete. As long as the consumer writes, nothing may be
/// issued on the tensor.
template <Element T, Runtime R>
[[nodiscard]] DLManagedTensor* to_dlpack(Tensor<T, R> const& tensor) {
  auto exported = std::make_unique<detail::ExportedTensor<T, R>>(tensor);
  detail::await_uses(tensor.any(), "to_dlpack");
  return &exported.release()->managed;
}

/// Exports the tensor to a library that works on the stream `consumer`. The stream's next work
/// waits for the tensor's uses so far, and work that is issued on the tensor after the library has
/// called the deleter waits for the stream. The host does not block.
template <Element T, Runtime R>
[[nodiscard]] DLManagedTensor* to_dlpack(
    Tensor<T, R> const& tensor,
    Stream<R> const& consumer,
    std::source_location held_at = std::source_location::current()) {
  auto exported = std::make_unique<detail::ExportedTensor<T, R>>(tensor);
  exported->holder.emplace(consumer);
  exported->holder->hold(tensor, AccessMode::write, held_at);
  return &exported.release()->managed;
}

/// Returns a tensor over the memory of another library, whose own work on it must be complete.
/// Takes ownership of `managed`, even if the call throws: dropping the tensor's last handle blocks
/// the host until the tensor's uses are complete, and calls the deleter. Throws
/// std::invalid_argument if the dtype is not T, the memory is not the device's, or the elements are
/// not aligned and row-major.
template <Element T, Runtime R>
[[nodiscard]] Tensor<T, R> from_dlpack(Device<R> const& device, DLManagedTensor* managed) {
  detail::OwnedManagedTensor owner(managed);
  DLTensor const& foreign = managed->dl_tensor;
  constexpr DLDataType dtype = detail::dlpack_dtype<T>();
  if (foreign.dtype.code != dtype.code || foreign.dtype.bits != dtype.bits ||
      foreign.dtype.lanes != dtype.lanes) {
    detail::refuse_dlpack_type({foreign.dtype.code, foreign.dtype.bits, foreign.dtype.lanes},
                               dtype_of<T>,
                               {dtype.code, dtype.bits, dtype.lanes});
  }
  auto const expected = detail::dlpack_device(device.engine().backend());
  if (foreign.device.device_type != expected.device_type ||
      foreign.device.device_id != expected.device_id) {
    detail::refuse_dlpack_device(
        {static_cast<int>(foreign.device.device_type), foreign.device.device_id},
        {static_cast<int>(expected.device_type), expected.device_id});
  }
  auto const shape = detail::shape_of(foreign);
  detail::require_row_major(foreign, shape);
  auto* const data = static_cast<std::byte*>(foreign.data) + foreign.byte_offset;
  auto const address = reinterpret_cast<std::uintptr_t>(data);
  if (address % alignof(T) != 0) {
    detail::refuse_dlpack_address(address, foreign.byte_offset, alignof(T));
  }
  if (foreign.data == nullptr && shape.count() != 0) {
    detail::refuse_dlpack_no_memory(shape);
  }
  auto const bytes = static_cast<std::size_t>(shape.count()) * sizeof(T);
  return {detail::adopt(device.state(), data, bytes, std::move(owner)), shape};
}

/// Returns a tensor over the memory of another library, which may still write it on the stream
/// `producer`: the tensor's first use waits for all work that is on the stream by now. Ownership
/// and exceptions are those of from_dlpack() without a stream.
template <Element T, Runtime R>
[[nodiscard]] Tensor<T, R> from_dlpack(Device<R> const& device,
                                       DLManagedTensor* managed,
                                       Stream<R> const& producer) {
  auto tensor = from_dlpack<T>(device, managed);
  detail::note_writes_of(producer.body(), tensor.any());
  return tensor;
}

}  // namespace msstream

#endif
