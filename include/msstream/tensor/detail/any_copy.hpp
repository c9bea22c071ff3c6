// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/tensor/detail/any_pinned_array.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>

namespace msstream::detail {

// The implementations of copy(), to_device(), to_host() and fill_bytes(), compiled once for all
// element types and runtimes. Both sides of a copy must have one element type.

void copy_to_device(AnyTensor const& to,
                    AnyPinnedArray const& from,
                    std::source_location issued_at);
void copy_to_host(AnyPinnedArray const& to, AnyTensor const& from, std::source_location issued_at);
void copy_on_device(AnyTensor const& to, AnyTensor const& from, std::source_location issued_at);
void fill_any(AnyTensor const& tensor, std::uint8_t value, std::source_location issued_at);
/// Uploads the `count` elements at `elements`, and returns a tensor with them.
[[nodiscard]] AnyTensor upload(std::shared_ptr<DeviceState> const& device,
                               DType dtype,
                               void const* elements,
                               std::size_t count,
                               Shape const& shape,
                               std::source_location issued_at);
/// Downloads the tensor, waits, and returns a pinned array with its elements.
[[nodiscard]] AnyPinnedArray download(AnyTensor const& tensor, std::source_location issued_at);

}  // namespace msstream::detail
