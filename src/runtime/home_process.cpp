// SPDX-License-Identifier: Apache-2.0
#include <msstream/runtime/detail/home_process.hpp>

#include <fmt/core.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <new>
#include <stdexcept>
#include <thread>

namespace msstream::detail {

namespace {

constexpr std::uint32_t kDriverEnded = 1;
constexpr std::uint32_t kOneFork = 2;

/// An object that must not be destroyed, because its driver has ended or its threads are in the
/// parent of fork(). An element of a list that only grows.
struct Kept {
  std::shared_ptr<void const> object;
  Kept* before;
};

constinit std::atomic<Kept*> last_kept{nullptr};
/// Whether the calling thread is the one that has called exit().
constinit thread_local bool is_in_exit = false;

}  // namespace

constinit std::atomic<std::uint32_t> HomeProcess::lives_[2]{};

HomeProcess::HomeProcess(RuntimeLife life) noexcept : index_(static_cast<std::uint32_t>(life)) {
  static int const registered = pthread_atfork(nullptr, nullptr, [] {
    lives_[0].fetch_add(kOneFork);
    lives_[1].fetch_add(kOneFork);
  });
  static_cast<void>(registered);  // registers the handler before the number of forks is read
  made_in_ = lives_[index_].load();
}

bool HomeProcess::is_forked() noexcept {
  return lives_[0].load() != 0;
}

void HomeProcess::leave_drivers() noexcept {
  is_in_exit = true;
  lives_[static_cast<int>(RuntimeLife::driver)].fetch_or(kDriverEnded);
}

void HomeProcess::keep(std::shared_ptr<void const> object) noexcept {
  auto* const kept = new (std::nothrow) Kept{std::move(object), last_kept.load()};
  while (kept != nullptr && !last_kept.compare_exchange_weak(kept->before, kept)) {
  }
}

void HomeProcess::throw_forked() {
  throw std::logic_error(
      fmt::format("msstream: process {} is a child of fork(), and uses a device or what was made "
                  "from one that its parent made before: the child has none of the parent's "
                  "threads and cannot use the parent's driver; use the device in the parent alone, "
                  "or start the child before the parent makes one, or with exec()",
                  getpid()));
}

void HomeProcess::throw_left() const {
  if (lives_[index_].load() / kOneFork != made_in_ / kOneFork) {
    throw_forked();
  }
  // Gives exit() time: if another thread is in exit(), the process most likely ends during this
  // sleep, before the calling thread throws.
  if (!is_in_exit) {
    std::this_thread::sleep_for(std::chrono::seconds(2));
  }
  throw std::logic_error(
      "msstream: a device, or what was made from one, is used after exit() has ended its driver");
}

}  // namespace msstream::detail
