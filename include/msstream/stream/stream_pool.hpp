// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/stream/detail/any_stream_pool.hpp>
#include <msstream/stream/stream_group.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace msstream {

template <Runtime R>
class StreamPool;

/// A guard that claims a stream group of a StreamPool until the guard is destroyed.
template <Runtime R = DefaultRuntime>
class StreamLease {
 public:
  StreamLease(StreamLease const&) = delete;
  StreamLease& operator=(StreamLease const&) = delete;

  /// Returns the group that is leased.
  [[nodiscard]] StreamGroup<R> const& group() const noexcept { return group_; }
  /// Returns the group that is leased, as group() does.
  [[nodiscard]] StreamGroup<R> const& operator*() const noexcept { return group_; }
  /// Gives the members of the group that is leased.
  [[nodiscard]] StreamGroup<R> const* operator->() const noexcept { return &group_; }

 private:
  friend class StreamPool<R>;
  explicit StreamLease(detail::AnyStreamLease body)
      : body_(std::move(body)), group_(body_.group()) {}

  detail::AnyStreamLease body_;
  StreamGroup<R> group_;
};

/// A pool of stream groups of one device. Thread-safe, without a lock; acquire() looks at each
/// group once.
///
/// A pool with an assignment or with propagation chooses, while it lives, the groups of the
/// operations of its device; a device can have only one such pool at a time. An operation's group
/// is then the first of these that exists: the group assigned to its name, the group of the
/// innermost StreamScope, the group that wrote its inputs, the device's default group.
template <Runtime R = DefaultRuntime>
class StreamPool {
 public:
  using runtime_type = R;

  /// Makes a pool of stream groups of a Device.
  template <DeviceOf<R> D>
  explicit StreamPool(D const& device, StreamPoolOptions const& options = {})
      : StreamPool(std::make_shared<detail::AnyStreamPool>(device.context(), options)) {}
  /// Makes a handle to an existing pool. For use by the library only. Throws
  /// std::invalid_argument if the pool's runtime type is not R.
  explicit StreamPool(std::shared_ptr<detail::AnyStreamPool> body) : body_(std::move(body)) {
    for (int i = 0; i < groups(); ++i) {
      groups_.emplace_back(body_->group(i));
    }
  }
  StreamPool(StreamPool const&) = delete;
  StreamPool& operator=(StreamPool const&) = delete;

  /// Returns the number of groups.
  [[nodiscard]] int groups() const noexcept { return body_->groups(); }
  /// Returns group number `index`. Throws std::out_of_range if there is no such group.
  [[nodiscard]] StreamGroup<R> const& operator[](int index) const {
    static_cast<void>(body_->group(index));
    return groups_[static_cast<std::size_t>(index)];
  }
  /// Returns the options with which the pool was made.
  [[nodiscard]] StreamPoolOptions const& options() const noexcept { return body_->options(); }

  /// Claims a stream group, chosen by the pool's lease policy.
  [[nodiscard]] StreamLease<R> acquire() { return acquire(options().policy); }
  [[nodiscard]] StreamLease<R> acquire(LeasePolicy policy) {
    return StreamLease<R>(body_->acquire(policy));
  }
  /// Returns the number of current leases of group number `index`.
  [[nodiscard]] int leases(int index) const { return body_->leases(index); }

  /// Blocks the host until all work issued to the pool so far is complete; rethrows failures of the
  /// work.
  void synchronize() { body_->synchronize(); }

  /// Returns the pool without its runtime type. For use by the library only.
  [[nodiscard]] detail::AnyStreamPool const& engine() const noexcept { return *body_; }

 private:
  std::shared_ptr<detail::AnyStreamPool> body_;
  std::vector<StreamGroup<R>> groups_;
};

template <class D>
StreamPool(D const&, StreamPoolOptions = {}) -> StreamPool<typename D::runtime_type>;

}  // namespace msstream
