// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/block_ref.hpp>

#include <cstdint>
#include <memory>

namespace msstream::detail {

struct DeviceState;
class StreamGroup;

/// The calling thread's innermost StreamScope on a device. Valid until that scope is closed.
struct CurrentScope {
  std::shared_ptr<StreamGroup> const* open = nullptr;  ///< null outside all StreamScopes
  bool includes_grad = false;

  /// Returns the stream group of the scope; null outside all StreamScopes.
  [[nodiscard]] std::shared_ptr<StreamGroup> group() const noexcept {
    return open != nullptr ? *open : nullptr;
  }
};
/// Returns the calling thread's innermost StreamScope on the device. Allocates no memory, and
/// changes no reference count.
[[nodiscard]] CurrentScope current_scope(DeviceState const& device) noexcept;

/// Returns whether the calling thread is capturing work of the device.
[[nodiscard]] bool is_capturing(DeviceState const& device) noexcept;

/// Returns how many times work on the device's launch threads has failed so far.
[[nodiscard]] std::uint64_t launch_failures(DeviceState const& device) noexcept;

/// Returns whether the tensor that owns the block has been frozen.
[[nodiscard]] bool is_immutable(memory::BlockRef const& block) noexcept;

}  // namespace msstream::detail
