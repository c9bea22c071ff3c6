// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/block_ref.hpp>

#include <cstddef>
#include <memory>

namespace msstream::detail {

struct DeviceState;

/// Makes a block of device memory that another library has allocated and `owner` keeps alive.
/// Dropping the last reference to the block blocks the host until the block's uses are complete,
/// and then drops the owner.
[[nodiscard]] memory::BlockRef adopt(std::shared_ptr<DeviceState> const& device,
                                     void* data,
                                     std::size_t bytes,
                                     std::shared_ptr<void> owner);

}  // namespace msstream::detail
