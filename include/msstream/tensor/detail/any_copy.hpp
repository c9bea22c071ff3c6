// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/tensor/detail/any_pinned_array.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>

namespace msstream::detail {

// The bodies of copy(), to_device(), to_host() and fill_bytes(), whatever the element type and the
// runtime. Both sides of a copy must have one element type.

void copy_to_device(AnyTensor const& to,
                    AnyPinnedArray const& from,
                    std::source_location issued_at);
void copy_to_host(AnyPinnedArray const& to, AnyTensor const& from, std::source_location issued_at);
void copy_on_device(AnyTensor const& to, AnyTensor const& from, std::source_location issued_at);
void fill_any(AnyTensor const& tensor, std::uint8_t value, std::source_location issued_at);
/// Returns a tensor with the `count` elements at `elements`.
[[nodiscard]] AnyTensor upload(std::shared_ptr<DeviceState> const& device,
                               DType dtype,
                               void const* elements,
                               std::size_t count,
                               Shape const& shape,
                               std::source_location issued_at);
/// Returns an array with the tensor's elements, which the host may read.
[[nodiscard]] AnyPinnedArray download(AnyTensor const& tensor, std::source_location issued_at);

}  // namespace msstream::detail
