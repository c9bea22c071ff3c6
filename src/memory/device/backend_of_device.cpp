// SPDX-License-Identifier: Apache-2.0
#include "runtime/of_this_process.hpp"

#include <msstream/base/detail/env.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/runtime/checked.hpp>
#include <msstream/runtime/cuda.hpp>
#include <msstream/runtime/detail/backend_of.hpp>
#include <msstream/runtime/detail/home_process.hpp>
#include <msstream/runtime/host.hpp>

#include <fmt/core.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <string>

namespace msstream::detail {
namespace {

/// The checker of all devices that are checked because of MSSTREAM_CHECK.
struct Common {
  HomeProcess home;
  std::mutex mutex;
  std::weak_ptr<Checker> checker;
};

/// Writes the numbers of findings to stderr, because the program cannot ask the common checker.
void write_counts(Checker const& checker) noexcept {
  try {
    if (checker.count() == 0) {
      return;
    }
    auto line = fmt::format("msstream check: findings: {}", checker.count());
    char const* separator = " (";
    for (auto const kind : kCheckKinds) {
      if (std::uint64_t const count = checker.count(kind); count != 0) {
        line += fmt::format("{}{}: {}", separator, name_of(kind), count);
        separator = ", ";
      }
    }
    std::fprintf(stderr, "%s)\n", line.c_str());
  } catch (std::exception const&) {
    std::fputs("msstream check: no memory to write the numbers of findings\n", stderr);
  }
}

/// Whether exit() has written the numbers of findings.
constinit std::atomic<bool> has_exit_written{false};

/// Destroys a checker whose findings are only counted, after it has looked for leaks.
void end_counting_checker(Checker* ending) noexcept {
  std::unique_ptr<Checker> const checker(ending);
  if (!has_exit_written.load()) {
    checker->report_leaks();
    write_counts(*checker);
  }
}

/// Called by exit() after the handler of LiveCheckers, which has looked for leaks. Writes the
/// counts of a checker whose devices are not destroyed: they are leaked, or left because their
/// driver has ended.
void write_counts_at_exit() {
  auto& common = of_this_process<Common>();
  std::lock_guard const guard(common.mutex);
  if (auto const checker = common.checker.lock(); checker != nullptr) {
    has_exit_written.store(true);
    write_counts(*checker);
  }
}

/// Returns the checker of all devices that are checked because of MSSTREAM_CHECK: devices that
/// share a dependency tracker must share their checker.
std::shared_ptr<Checker> common_checker() {
  auto& common = of_this_process<Common>();
  std::lock_guard const guard(common.mutex);
  auto checker = common.checker.lock();
  if (checker != nullptr) {
    return checker;
  }
  CheckerOptions const options;
  if (options.mode == CheckMode::count) {
    // Registered before the first checker, which registers the handler of LiveCheckers: handlers
    // run in the reverse order.
    static int const registered = std::atexit(write_counts_at_exit);
    static_cast<void>(registered);
    checker = std::shared_ptr<Checker>(new Checker(options), end_counting_checker);
  } else {
    checker = std::make_shared<Checker>(options);
  }
  common.checker = checker;
  return checker;
}

template <Runtime R>
std::shared_ptr<Backend> make_plain_or_checked(typename R::Options const& options) {
  HomeProcess const home(life_of<R>);
  if (!env::flag("MSSTREAM_CHECK", false)) {
    return make_at_home<BackendOf<R>>(home, options);
  }
  return make_at_home<BackendOf<Checked<R>>>(
      home,
      typename Checked<R>::Options{.runtime = options, .check = {}, .checker = common_checker()},
      InsteadOfInner());
}

}  // namespace

template <>
std::shared_ptr<Backend> make_backend_of_device<Host>(Host::Options const& options) {
  return make_plain_or_checked<Host>(options);
}
#if MSSTREAM_CUDA
template <>
std::shared_ptr<Backend> make_backend_of_device<Cuda>(Cuda::Options const& options) {
  return make_plain_or_checked<Cuda>(options);
}
#endif

}  // namespace msstream::detail
