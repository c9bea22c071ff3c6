// SPDX-License-Identifier: Apache-2.0
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
#include <exception>
#include <memory>
#include <mutex>
#include <string>

namespace msstream::detail {
namespace {

struct Common {
  HomeProcess home;
  std::mutex mutex;
  std::weak_ptr<Checker> checker;
};

/// Destroys a checker that MSSTREAM_CHECK has made. The program cannot ask this checker for its
/// findings, so in mode `count` their numbers are written to stderr.
void end_checker(Checker* ending, CheckMode mode) noexcept {
  std::unique_ptr<Checker> const checker(ending);
  if (mode != CheckMode::count || checker->count() == 0) {
    return;
  }
  try {
    auto line = fmt::format("msstream check: findings: {}", checker->count());
    char const* separator = " (";
    for (auto const kind : kCheckKinds) {
      if (std::uint64_t const count = checker->count(kind); count != 0) {
        line += fmt::format("{}{}: {}", separator, name_of(kind), count);
        separator = ", ";
      }
    }
    std::fprintf(stderr, "%s)\n", line.c_str());
  } catch (
      std::exception const&) {  // NOLINT(bugprone-empty-catch): there is no memory for the line
  }
}

/// Returns the checker of all devices that are checked because of MSSTREAM_CHECK: devices that
/// share a dependency tracker must share their checker. A child of fork() gets a checker of its
/// own, because locks of the parent's checker may be held by threads that the child does not have.
std::shared_ptr<Checker> common_checker() {
  static std::atomic<Common*> of_process{new Common};  // used until the process has ended
  auto* common = of_process.load();
  if (common->home.is_left()) {
    auto fresh = std::make_unique<Common>();
    if (of_process.compare_exchange_strong(common, fresh.get())) {
      common = fresh.release();
    }
  }
  std::lock_guard const guard(common->mutex);
  auto checker = common->checker.lock();
  if (checker == nullptr) {
    CheckerOptions const options;
    checker = std::shared_ptr<Checker>(
        new Checker(options),
        [mode = options.mode](Checker* ending) { end_checker(ending, mode); });
    common->checker = checker;
  }
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
