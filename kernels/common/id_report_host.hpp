// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/id_report.hpp"

#include <atomic>
#include <cstdint>

namespace msstream::ops::kernels {

/// Writes a bad id or bag into the report's IdTrap, if the calling thread is the first to claim the
/// trap. Does nothing if the report has no trap.
inline void spring_trap(IdReport const& report, Caught const& caught) {
  if (report.trap == nullptr) {
    return;
  }
  IdTrap& trap = *report.trap;
  std::atomic_ref<std::uint32_t> const set(trap.set);
  std::uint32_t expected = 0;
  if (set.compare_exchange_strong(expected, 2)) {
    trap.operation = report.operation;
    trap.caught.bag = caught.bag;
    trap.caught.id = caught.id;
    trap.caught.end = caught.end;
    trap.caught.rows = caught.rows;
    set.store(1, std::memory_order_release);
  }
}
inline void spring_trap(IdReport const& report, std::int64_t id, std::int64_t rows) {
  spring_trap(report, {-1, id, 0, rows});
}

inline void count_out_of_range(IdReport const& report, std::uint64_t ids) {
  if (ids > 0 && report.count != nullptr) {
    std::atomic_ref(*report.count).fetch_add(ids, std::memory_order_relaxed);
  }
}

}  // namespace msstream::ops::kernels
