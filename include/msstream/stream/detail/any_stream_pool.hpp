// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/stream/stream_pool_options.hpp>

#include <atomic>
#include <memory>
#include <utility>

namespace msstream::detail {

class StreamGroup;
class StreamPool;
struct StreamContext;

/// The implementation of StreamLease<R>, compiled once for all runtimes: counts as a lease of its
/// stream group until destroyed.
class AnyStreamLease {
 public:
  /// Takes over a lease that the caller has already added to `leases`.
  AnyStreamLease(std::shared_ptr<StreamGroup> group,
                 std::shared_ptr<std::atomic<int>> leases) noexcept
      : group_(std::move(group)), leases_(std::move(leases)) {}
  AnyStreamLease(AnyStreamLease&&) noexcept = default;  // a moved-from object counts nothing
  AnyStreamLease& operator=(AnyStreamLease&&) = delete;
  ~AnyStreamLease() {
    if (leases_ != nullptr) {
      leases_->fetch_sub(1, std::memory_order_relaxed);
    }
  }
  [[nodiscard]] std::shared_ptr<StreamGroup> const& group() const noexcept { return group_; }

 private:
  std::shared_ptr<StreamGroup> group_;
  std::shared_ptr<std::atomic<int>> leases_;
};

/// The implementation of StreamPool<R>, compiled once for all runtimes.
class AnyStreamPool {
 public:
  AnyStreamPool(std::shared_ptr<StreamContext> const& context, StreamPoolOptions const& options);
  ~AnyStreamPool();
  AnyStreamPool(AnyStreamPool const&) = delete;
  AnyStreamPool& operator=(AnyStreamPool const&) = delete;

  [[nodiscard]] int groups() const noexcept;
  [[nodiscard]] std::shared_ptr<StreamGroup> const& group(int index) const;
  [[nodiscard]] StreamPoolOptions const& options() const noexcept;
  [[nodiscard]] AnyStreamLease acquire(LeasePolicy policy);
  [[nodiscard]] int leases(int index) const;
  void synchronize();

 private:
  std::unique_ptr<StreamPool> pool_;
};

}  // namespace msstream::detail
