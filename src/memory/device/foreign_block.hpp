// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/blocks/block_uses.hpp"
#include "memory/device/device_state.hpp"

#include <cstddef>
#include <memory>
#include <utility>

namespace msstream::memory {

/// A block of memory that another library has allocated. `owner` keeps the memory alive, and gives
/// it back when destroyed.
template <class Owner>
struct ForeignBlock : Block {
  ForeignBlock(std::shared_ptr<detail::DeviceState> its_device, Owner keeper)
      : kept_device(std::move(its_device)), owner(std::move(keeper)) {
    this->device = &kept_device;
  }

  std::shared_ptr<detail::DeviceState> kept_device;
  Owner owner;
};

/// Makes a block of device memory that another library has allocated. Its uses are tracked like
/// those of any other block. When the last reference is dropped, blocks the host until the uses are
/// complete and then destroys `owner`, which knows nothing of streams.
template <class Owner>
[[nodiscard]] BlockRef adopt(std::shared_ptr<detail::DeviceState> device,
                             void* data,
                             std::size_t bytes,
                             Owner owner) {
  using Foreign = ForeignBlock<Owner>;
  auto* const block = new Foreign(std::move(device), std::move(owner));
  block->data = static_cast<std::byte*>(data);
  block->bytes = bytes;
  block->shared_outside = true;
  block->release = [](Block* released) noexcept {
    std::unique_ptr<Foreign> foreign(static_cast<Foreign*>(released));
    if (foreign->kept_device->context->home.is_left()) [[unlikely]] {
      detail::HomeProcess::keep(std::move(foreign));  // the owner may wait, or call the driver
      return;
    }
    detail::RuntimeThread::call_outside([foreign = std::move(foreign)] {
      auto& tracker = *foreign->kept_device->context->tracker;
      for_each_use(*foreign, [&](order::Position use) { tracker.finish(use); });
      if (foreign->immutable) {  // reads of immutable memory are not noted
        for (auto const& newest : tracker.newest_positions()) {
          tracker.finish(newest);
        }
      }
    });
  };
  return BlockRef(block);
}

}  // namespace msstream::memory
