// SPDX-License-Identifier: Apache-2.0
#include "memory/device/foreign_block.hpp"

#include <msstream/memory/detail/adopt.hpp>

#include <cstddef>
#include <memory>
#include <utility>

namespace msstream::detail {

memory::BlockRef adopt(std::shared_ptr<DeviceState> const& device,
                       void* data,
                       std::size_t bytes,
                       std::shared_ptr<void> owner) {
  return memory::adopt(device, data, bytes, std::move(owner));
}

}  // namespace msstream::detail
