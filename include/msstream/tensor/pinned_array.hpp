// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/tensor/detail/any_pinned_array.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <typeinfo>

namespace msstream {

/// An array in pinned host memory, the host's side of copies to and from the device. Copies of the
/// object share the elements.
///
/// The host may read and write the elements while no copy is in flight: at first, and after wait().
/// A checking runtime learns of host accesses from elements() and const_elements(), or from
/// host_reads() and host_writes() if the host uses an address that it has kept.
template <Element T, Runtime R = DefaultRuntime>
class PinnedArray {
 public:
  using runtime_type = R;

  /// Makes an array of `count` elements of undefined values. Throws OutOfMemory.
  PinnedArray(Device<R> const& device, std::size_t count) : PinnedArray(device.state(), count) {}
  /// Makes an array on the device of another array or tensor. Throws std::invalid_argument if the
  /// device's runtime type is not R.
  PinnedArray(std::shared_ptr<detail::DeviceState> const& device, std::size_t count)
      : any_(device, count, sizeof(T)) {
    detail::require_runtime(*device, typeid(R));
  }

  /// Returns the address of the first element. A checking runtime does not learn of accesses
  /// through the address.
  [[nodiscard]] T* data() const noexcept { return static_cast<T*>(any_.data()); }
  /// Returns the number of elements.
  [[nodiscard]] std::size_t count() const noexcept { return any_.count(); }
  /// Returns the size of all elements in bytes.
  [[nodiscard]] std::size_t bytes() const noexcept { return any_.bytes(); }
  /// Returns the elements for the host to read. Copies to the device, which read the elements, may
  /// be in flight.
  [[nodiscard]] std::span<T const> const_elements() const {
    host_reads();
    return {data(), count()};
  }
  /// Returns the elements for the host to read and write.
  [[nodiscard]] std::span<T> elements() const {
    host_writes();
    return {data(), count()};
  }

  /// Tells a checking runtime that the host is about to read the elements: the host must know that
  /// all copies into the array are complete.
  void host_reads() const { any_.host_uses(AccessMode::read); }
  /// Tells a checking runtime that the host is about to write the elements: the host must know that
  /// all copies to and from the array are complete.
  void host_writes() const { any_.host_uses(AccessMode::write); }
  [[nodiscard]] std::shared_ptr<detail::DeviceState> const& device() const noexcept {
    return any_.device();
  }

  /// Blocks the host until the copies to and from the array that were issued so far are complete;
  /// then runs the device's checks, which may throw.
  void wait() const { wait("PinnedArray::wait"); }
  /// Blocks the host as wait() does, on behalf of the function `call`, whose name is in the error's
  /// message if the host cannot wait.
  void wait(char const* call) const { any_.wait(call); }

  [[nodiscard]] memory::BlockRef const& block() const noexcept { return any_.block(); }
  [[nodiscard]] detail::AnyPinnedArray const& any() const noexcept { return any_; }

 private:
  detail::AnyPinnedArray any_;
};

}  // namespace msstream
