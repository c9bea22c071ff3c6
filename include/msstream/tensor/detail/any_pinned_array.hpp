// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/block_ref.hpp>
#include <msstream/runtime/operation.hpp>

#include <cstddef>
#include <memory>
#include <utility>

namespace msstream::detail {

struct DeviceState;

/// The implementation of PinnedArray<T, R>, compiled once for all element types and runtimes.
class AnyPinnedArray {
 public:
  AnyPinnedArray(std::shared_ptr<DeviceState> const& device,
                 std::size_t count,
                 std::size_t element_bytes);

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return count_ * element_bytes_; }
  [[nodiscard]] std::shared_ptr<DeviceState> const& device() const noexcept;
  /// Reports a use of the array by the host to an observing runtime, unless the calling code is a
  /// stream's work on the host.
  void host_uses(AccessMode mode) const;
  /// Blocks the host until the copies issued so far are complete; then runs the device's checks,
  /// which may throw. If the host cannot wait, throws an error whose message contains `call`.
  void wait(char const* call) const;
  [[nodiscard]] memory::BlockRef const& block() const noexcept { return block_; }

 private:
  memory::BlockRef block_;
  void* data_;
  std::size_t count_;
  std::size_t element_bytes_;
};

}  // namespace msstream::detail
