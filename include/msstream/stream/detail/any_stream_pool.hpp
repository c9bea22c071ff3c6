// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/stream/stream_pool_options.hpp>

#include <memory>

namespace msstream::detail {

class StreamGroup;
class StreamLease;
class StreamPool;
struct StreamContext;

/// The body of every StreamLease<R>, whatever the runtime.
class AnyStreamLease {
 public:
  explicit AnyStreamLease(std::unique_ptr<StreamLease> lease) noexcept;
  AnyStreamLease(AnyStreamLease&&) noexcept;
  AnyStreamLease& operator=(AnyStreamLease&&) = delete;
  ~AnyStreamLease();
  [[nodiscard]] std::shared_ptr<StreamGroup> const& group() const noexcept;

 private:
  std::unique_ptr<StreamLease> lease_;
};

/// The body of every StreamPool<R>, whatever the runtime.
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
