// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/memory/synchronize_uses.hpp>

#include <cstddef>
#include <span>
#include <utility>

namespace msstream {

/// An array in pinned host memory, the host's side of a copy. Copies share the elements.
///
/// The host may read and write the elements while no copy is in flight: at first, and after wait().
/// A runtime that checks is told of it by elements() and const_elements(), or by host_reads() and
/// host_writes() where the host goes through an address that it has kept.
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

  /// The address; using it tells nobody.
  [[nodiscard]] T* data() const noexcept { return reinterpret_cast<T*>(block_->data); }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return count_ * sizeof(T); }
  /// The elements, for the host to read: copies that read them may be in flight.
  [[nodiscard]] std::span<T const> const_elements() const {
    host_reads();
    return {data(), count_};
  }
  /// The elements, for the host to read and write.
  [[nodiscard]] std::span<T> elements() const {
    host_writes();
    return {data(), count_};
  }

  /// Says that the host is about to read the elements: the copies into them should be known to be
  /// complete.
  void host_reads() const { host_uses(AccessMode::read); }
  /// Says that the host is about to write the elements: all copies should be known to be complete.
  void host_writes() const { host_uses(AccessMode::write); }
  [[nodiscard]] std::shared_ptr<DeviceState<R>> const& device() const noexcept {
    return *block_->device;
  }

  /// Blocks the host until the copies issued so far are complete; then runs the device's checks,
  /// which may throw.
  void wait() const { wait("PinnedArray::wait"); }
  /// The same for another call, which is then named where the host cannot wait.
  void wait(char const* call) const {
    synchronize_uses(*block_, AccessMode::write, call);
    device()->run_checks();
  }

  [[nodiscard]] memory::BlockRef<R> const& block() const noexcept { return block_; }

 private:
  /// What a stream's work does on the host is the stream's.
  void host_uses(AccessMode mode) const {
    if (!RuntimeThread::is_current()) {
      observe::host_uses(*device()->context->runtime, {data(), bytes(), mode});
    }
  }

  memory::BlockRef<R> block_;
  std::size_t count_;
};

}  // namespace msstream
