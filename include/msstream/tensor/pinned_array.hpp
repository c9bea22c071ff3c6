// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/memory/synchronize_uses.hpp>

#include <cstddef>
#include <span>
#include <utility>

namespace msstream {

/// An array in pinned host memory, the host's side of a copy. Copied handles share the elements.
///
/// The host may read and write the elements while no copy is in flight: at first, and after wait().
/// A checking runtime learns of host accesses from elements() and const_elements(), or from
/// host_reads() and host_writes() if the host uses an address that it has kept.
template <Element T, Runtime R = DefaultRuntime>
class PinnedArray {
 public:
  using runtime_type = R;

  PinnedArray(Device<R> const& device, std::size_t count) : PinnedArray(device.state(), count) {}
  PinnedArray(std::shared_ptr<DeviceState<R>> const& device, std::size_t count)
      : block_(device->pinned.allocate(memory::bytes_of_array(count, sizeof(T)),
                                       device->current_group().compute().slot(),
                                       device)),
        count_(count) {}

  /// Returns the address. A checking runtime does not learn of accesses through it.
  [[nodiscard]] T* data() const noexcept { return reinterpret_cast<T*>(block_->data); }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return count_ * sizeof(T); }
  /// Returns the elements for the host to read. Copies that read them may be in flight.
  [[nodiscard]] std::span<T const> const_elements() const {
    host_reads();
    return {data(), count_};
  }
  /// Returns the elements for the host to read and write.
  [[nodiscard]] std::span<T> elements() const {
    host_writes();
    return {data(), count_};
  }

  /// Notes that the host is about to read the elements: copies into them should be known complete.
  void host_reads() const { host_uses(AccessMode::read); }
  /// Notes that the host is about to write the elements: all copies should be known to be complete.
  void host_writes() const { host_uses(AccessMode::write); }
  [[nodiscard]] std::shared_ptr<DeviceState<R>> const& device() const noexcept {
    return *block_->device;
  }

  /// Blocks the host until the copies issued so far are complete; then runs the device's checks,
  /// which may throw.
  void wait() const { wait("PinnedArray::wait"); }
  /// Like wait(), on behalf of the function `call`, which the error names if the host cannot wait.
  void wait(char const* call) const {
    synchronize_uses(*block_, AccessMode::write, call);
    device()->run_checks();
  }

  [[nodiscard]] memory::BlockRef<R> const& block() const noexcept { return block_; }

 private:
  /// Reports a use by the host, unless the calling code is a stream's work on the host.
  void host_uses(AccessMode mode) const {
    if (!RuntimeThread::is_current()) {
      observe::host_uses(*device()->context->runtime, {data(), bytes(), mode});
    }
  }

  memory::BlockRef<R> block_;
  std::size_t count_;
};

}  // namespace msstream
