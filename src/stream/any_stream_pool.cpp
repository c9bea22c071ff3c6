// SPDX-License-Identifier: Apache-2.0
#include "stream/stream_pool.hpp"

#include <msstream/runtime/detail/runtime_thread.hpp>
#include <msstream/stream/detail/any_stream_pool.hpp>

#include <memory>
#include <utility>

namespace msstream::detail {

AnyStreamPool::AnyStreamPool(std::shared_ptr<StreamContext> const& context,
                             StreamPoolOptions const& options)
    : pool_(std::make_unique<StreamPool>(context, options)) {}
AnyStreamPool::~AnyStreamPool() {
  // The pool's destructor waits for work, and the last owner of a pool may be work on a launch
  // thread, which must not wait for itself.
  RuntimeThread::call_outside([pool = pool_.release()] { delete pool; });
}
int AnyStreamPool::groups() const noexcept {
  return pool_->groups();
}
std::shared_ptr<StreamGroup> const& AnyStreamPool::group(int index) const {
  return pool_->group(index);
}
StreamPoolOptions const& AnyStreamPool::options() const noexcept {
  return pool_->options();
}
AnyStreamLease AnyStreamPool::acquire(LeasePolicy policy) {
  return pool_->acquire(policy);
}
int AnyStreamPool::leases(int index) const {
  return pool_->leases(index);
}
void AnyStreamPool::synchronize() {
  pool_->synchronize();
}

}  // namespace msstream::detail
