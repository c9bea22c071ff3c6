// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/stream/stream.hpp>

#include <memory>
#include <string>
#include <utility>

namespace msstream {

/// A group of a compute, an h2d and a d2h stream (or one stream for all three), with the resources
/// that streams of different groups must not share: library handles, a workspace, and the failures
/// of the group's launch threads. Made by a StreamPool or a Device; copies refer to the same group.
/// Thread-safe.
template <Runtime R = DefaultRuntime>
class StreamGroup {
 public:
  using runtime_type = R;

  /// Makes a handle to an existing group. For use by the library only. Throws std::invalid_argument
  /// if the group's runtime type is not R.
  explicit StreamGroup(std::shared_ptr<detail::StreamGroup> group) : body_(std::move(group)) {
    static_cast<void>(detail::runtime_of<R>(body_.backend()));
  }

  /// Returns the group's stream for compute, for copies to the device, or for copies from it.
  [[nodiscard]] Stream<R> stream(StreamKind kind) const { return Stream<R>(body_.stream(kind)); }
  /// Returns the stream of kernels.
  [[nodiscard]] Stream<R> compute() const { return stream(StreamKind::compute); }
  /// Returns the stream of copies to the device.
  [[nodiscard]] Stream<R> h2d() const { return stream(StreamKind::h2d); }
  /// Returns the stream of copies to the host.
  [[nodiscard]] Stream<R> d2h() const { return stream(StreamKind::d2h); }
  /// Returns whether the group has one stream for compute and copies.
  [[nodiscard]] bool merged() const noexcept { return body_.merged(); }
  /// Returns the group's number in its pool, or -1 for a device's default group.
  [[nodiscard]] int index() const noexcept { return body_.index(); }
  /// Returns the name in reports and profiles, such as "group 2".
  [[nodiscard]] std::string const& name() const noexcept { return body_.name(); }

  /// Blocks the host until all work issued to the group so far is complete. Rethrows failures of
  /// the work, and throws errors that the device has reported, such as an id out of range with
  /// OutOfRange::trap.
  void synchronize() const { body_.synchronize(); }

  [[nodiscard]] detail::StreamGroup& engine() const noexcept { return *body_.engine(); }
  [[nodiscard]] std::shared_ptr<detail::StreamGroup> const& share_engine() const noexcept {
    return body_.engine();
  }
  friend bool operator==(StreamGroup const& a, StreamGroup const& b) noexcept {
    return a.body_.engine() == b.body_.engine();
  }

 private:
  detail::AnyStreamGroup body_;
};

}  // namespace msstream
