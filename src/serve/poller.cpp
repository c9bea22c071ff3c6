// SPDX-License-Identifier: Apache-2.0
#include "serve/poller.hpp"

#include "runtime/driver_calls.hpp"
#include "serve/rung_soon.hpp"

#include <msstream/base/detail/start_thread.hpp>

#include <algorithm>
#include <utility>

namespace msstream::serve {

Poller::Poller(PoolState& pool, Dispatcher& dispatcher, std::chrono::microseconds spin)
    : pool_(pool),
      dispatcher_(dispatcher),
      spin_(spin),
      thread_(detail::start_thread("the poller of an inference pool", [this] { work(); })) {}

Poller::~Poller() {
  stopping_.store(true);
  pool_.bell.ring_for_all();
  thread_.join();
}

void Poller::work() noexcept {
  detail::DriverCalls calls(pool_.context->tracker->life());
  auto const sweep = [&](bool is_rung) {
    detail::DriverCalls::Inside const inside(calls);
    return dispatcher_.sweep(is_rung);
  };
  std::uint64_t heard = 0;
  while (true) {
    auto const rung = pool_.bell.rung();
    if (sweep(rung != std::exchange(heard, rung))) {
      std::this_thread::yield();  // lets launching threads run on machines with few processors
      continue;
    }
    if (stopping_.load()) {
      return;
    }
    rest(rung);
  }
}

void Poller::rest(std::uint64_t rung) noexcept {
  auto const next = dispatcher_.next_sweep_at();
  auto const now = Clock::now();
  auto const awake_until = std::min<Clock::time_point>(now + spin_, next);
  if (next <= now || (spin_.count() != 0 && is_rung_before(pool_.bell, rung, awake_until))) {
    return;
  }
  if (next == Clock::time_point::max()) {
    pool_.bell.sleep(rung);
  } else {
    pool_.bell.sleep_until(rung, next);
  }
}

}  // namespace msstream::serve
