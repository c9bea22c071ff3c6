// SPDX-License-Identifier: Apache-2.0
#include "live_checkers.hpp"

#include <msstream/runtime/checker.hpp>
#include <msstream/runtime/detail/home_process.hpp>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>

namespace msstream::detail {

namespace {

struct Registry {
  HomeProcess home;
  std::mutex mutex;
  std::set<Checker*> checkers;
};

/// Returns the registry of checkers. It is never destroyed, because a checker may be destroyed
/// after all static objects. A child of fork() gets a new registry: the locks of its parent's
/// checkers may be held by threads that the child does not have.
Registry& registry() {
  static std::atomic<Registry*> of_process{new Registry};
  auto* all = of_process.load();
  if (all->home.is_left()) {
    auto fresh = std::make_unique<Registry>();
    if (of_process.compare_exchange_strong(all, fresh.get())) {
      all = fresh.release();
    }
  }
  return *all;
}

void at_exit() {
  auto& all = registry();
  std::lock_guard const guard(all.mutex);
  for (auto* const checker : all.checkers) {
    checker->report_leaks();
    checker->write_report();
  }
}

}  // namespace

void LiveCheckers::add(Checker& checker) {
  // Registers the exit handler before the checker is complete, so that the handler runs after the
  // destructors of static objects that own a checker.
  static int const registered = std::atexit(at_exit);
  static_cast<void>(registered);
  auto& all = registry();
  std::lock_guard const guard(all.mutex);
  all.checkers.insert(&checker);
}

void LiveCheckers::remove(Checker& checker) noexcept {
  auto& all = registry();
  std::lock_guard const guard(all.mutex);
  all.checkers.erase(&checker);
}

}  // namespace msstream::detail
