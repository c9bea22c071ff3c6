// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/account.hpp"

#include "overlap/find/alone.hpp"
#include "overlap/find/hold.hpp"
#include "overlap/find/idle.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace msstream::overlap {

Ledger account(Program const& program,
               Host const& host,
               Collectives const& collectives,
               Index device,
               Interval window,
               CauseSet const& harmless) {
  Ledger ledger;
  Holds const holds(program, collectives);
  IdleTime idle(program, host, holds, window);
  AloneTime alone(program, host, collectives, holds, device, harmless);
  using End = std::pair<Ns, Index>;
  std::priority_queue<End, std::vector<End>, std::greater<>> running;
  auto const activities = program.of_device(device);
  // An activity that runs alone ends one span and begins another.
  ledger.reserve(2 * activities.size() + 1);
  std::size_t next = 0;
  Ns now = window.begin;
  while (true) {
    while (!running.empty() && running.top().first <= now) {
      running.pop();
    }
    while (next < activities.size() && program.activity(activities[next]).time.begin <= now) {
      auto const& time = program.activity(activities[next]).time;
      if (time.end > now) {
        running.emplace(time.end, activities[next]);
      }
      ++next;
    }
    if (now >= window.end) {
      break;
    }
    Ns end = window.end;
    if (next < activities.size()) {
      end = std::min(end, program.activity(activities[next]).time.begin);
    }
    if (!running.empty()) {
      end = std::min(end, running.top().first);
    }
    ledger.add_at_once(running.size(), end - now);
    if (running.empty()) {
      idle.charge({now, end}, next < activities.size() ? activities[next] : kNone, ledger);
    } else if (running.size() == 1) {
      alone.charge({now, end}, running.top().second, ledger);
    } else {
      ledger.add({.time = {now, end}, .kind = TimeClass::overlapped, .cause = {}});
    }
    now = end;
  }
  ledger.close();
  return ledger;
}

}  // namespace msstream::overlap
