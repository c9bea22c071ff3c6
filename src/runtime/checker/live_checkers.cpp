// SPDX-License-Identifier: Apache-2.0
#include "live_checkers.hpp"

#include "runtime/of_this_process.hpp"

#include <msstream/runtime/checker.hpp>
#include <msstream/runtime/detail/home_process.hpp>

#include <cstdlib>
#include <mutex>
#include <set>

namespace msstream::detail {

namespace {

/// The live checkers of a process.
struct Registry {
  HomeProcess home;
  std::mutex mutex;
  std::set<Checker*> checkers;
};

void at_exit() {
  auto& all = of_this_process<Registry>();
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
  auto& all = of_this_process<Registry>();
  std::lock_guard const guard(all.mutex);
  all.checkers.insert(&checker);
}

void LiveCheckers::remove(Checker& checker) noexcept {
  auto& all = of_this_process<Registry>();
  std::lock_guard const guard(all.mutex);
  all.checkers.erase(&checker);
}

}  // namespace msstream::detail
