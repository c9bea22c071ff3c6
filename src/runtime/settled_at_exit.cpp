// SPDX-License-Identifier: Apache-2.0
#include "runtime/settled_at_exit.hpp"

#include <msstream/runtime/detail/runtime_thread.hpp>

#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

namespace msstream::detail {

namespace {

struct Settled {
  std::weak_ptr<void> object;
  Settle settle;
  SettleOrder order;
};

struct SettledObjects {
  HomeProcess home;
  std::mutex mutex;
  std::vector<Settled> all;
};

/// Returns the registered objects. They are never destroyed, because the handler of exit() may run
/// after the destructors of static objects.
SettledObjects& settled_objects() {
  static auto& objects = *new SettledObjects;
  return objects;
}

/// Calls the registered functions of all objects of one SettleOrder. Does not hold the lock during
/// the calls, because a call may destroy registered objects or register new ones.
void settle_all(SettleOrder order) {
  auto& objects = settled_objects();
  std::unique_lock lock(objects.mutex);
  auto const all = objects.all;
  lock.unlock();
  for (auto const& settled : all) {
    if (auto const object = settled.order == order ? settled.object.lock() : nullptr) {
      settled.settle(object.get());
    }
  }
}

void end_drivers() {
  if (settled_objects().home.is_left()) {
    return;  // the process is a child of fork()
  }
  if (!RuntimeThread::is_in_work()) {
    settle_all(SettleOrder::threads);
    settle_all(SettleOrder::streams);
    settle_all(SettleOrder::libraries);
  }
  HomeProcess::leave_drivers();
}

}  // namespace

void settle_at_exit(std::weak_ptr<void> object, Settle settle, SettleOrder order) {
  auto& objects = settled_objects();
  std::lock_guard const guard(objects.mutex);
  std::erase_if(objects.all, [](Settled const& settled) { return settled.object.expired(); });
  objects.all.push_back({std::move(object), settle, order});
}

void leave_drivers_at_exit() {
  static_cast<void>(settled_objects());
  static int const registered = std::atexit(end_drivers);
  static_cast<void>(registered);
}

}  // namespace msstream::detail
