// SPDX-License-Identifier: Apache-2.0
// The simulated device: blocks on its multiprocessors, copies on its engines, shared bandwidth.
#include "overlap/cases/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace msstream::overlap::cases {

Simulation::Resources Simulation::of_block(Kernel const& kernel) {
  return {kernel.threads,
          1,
          static_cast<std::int64_t>(kernel.threads) * kernel.registers,
          kernel.shared_bytes};
}

/// Returns how many blocks of a kernel fit into what one multiprocessor has free.
std::int64_t Simulation::blocks_beside(Resources const& free, Kernel const& kernel) {
  auto const block = of_block(kernel);
  auto fit = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < block.size(); ++i) {
    if (block[i] > 0) {
      fit = std::min(fit, free[i] / block[i]);
    }
  }
  return fit;
}

/// Places up to `count` blocks, one on each multiprocessor in turn, and returns where they are.
std::vector<std::int64_t> Simulation::place_blocks(Kernel const& kernel, std::int64_t count) {
  auto const block = of_block(kernel);
  std::vector<std::int64_t> placed(free_.size(), 0);
  for (bool progress = true; progress && count > 0;) {
    progress = false;
    for (std::size_t sm = 0; sm < free_.size() && count > 0; ++sm) {
      if (blocks_beside(free_[sm], kernel) == 0) {
        continue;
      }
      for (std::size_t i = 0; i < block.size(); ++i) {
        free_[sm][i] -= block[i];
      }
      ++placed[sm];
      --count;
      progress = true;
    }
  }
  return placed;
}

void Simulation::find_ready(Ns) {
  for (auto& item : items_) {
    if (item.ready_at >= 0 || !are_done(item.after)) {
      continue;
    }
    item.ready_at = item.arrival;
    for (auto const before : item.after) {
      auto const latency =
          items_[before].stream == item.stream ? gpu_.follow_latency : gpu_.wait_latency;
      item.ready_at = std::max(item.ready_at, items_[before].activity.time.end + latency);
    }
  }
}

void Simulation::give(Ns now) {
  std::vector<char> held(static_cast<std::size_t>(gpu_.channels), 0);
  for (Index i = 0; i < items_.size(); ++i) {
    auto& item = items_[i];
    if (item.given) {
      continue;
    }
    bool const ready = item.ready_at >= 0 && item.ready_at <= now;
    bool const in_channel = item.kind != ActivityKind::copy && item.channel >= 0;
    auto& channel_held = held[static_cast<std::size_t>(std::max(0, item.channel))];
    if (!ready || (in_channel && channel_held != 0)) {
      if (in_channel) {
        channel_held = 1;
      }
      continue;
    }
    item.given = true;
    if (item.kind == ActivityKind::copy) {
      engines_[item.activity.direction].push_back(i);
    } else {
      waiting_kernels_.push_back(i);
    }
  }
}

void Simulation::start_blocks(Ns now) {
  std::ranges::stable_sort(waiting_kernels_, {}, [this](Index i) { return items_[i].priority; });
  while (!waiting_kernels_.empty()) {
    auto const number = waiting_kernels_.front();
    auto& item = items_[number];
    auto placed = place_blocks(item.kernel, item.blocks_left);
    auto const count = std::accumulate(placed.begin(), placed.end(), std::int64_t{0});
    if (count == 0) {
      return;
    }
    if (!item.begun) {
      item.begun = true;
      item.activity.time.begin = now;
    }
    auto const time = std::max(item.block_time, item.kernel.ends_at - now);
    batches_.push_back({number, std::move(placed), static_cast<double>(time)});
    item.blocks_left -= count;
    item.blocks_running += count;
    if (item.blocks_left > 0) {
      return;
    }
    waiting_kernels_.erase(waiting_kernels_.begin());
  }
}

void Simulation::start_copies(Ns now) {
  for (auto& [direction, queue] : engines_) {
    if (!queue.empty() && !items_[queue.front()].begun) {
      items_[queue.front()].begun = true;
      items_[queue.front()].activity.time = {now, now + items_[queue.front()].copy_time};
    }
  }
}

double Simulation::slowdown() const {
  double needed = 0;
  for (auto const& item : items_) {
    if (item.blocks_running > 0) {
      needed += item.kernel.bandwidth;
    }
  }
  return std::max(1.0, needed);
}

double Simulation::rate_of(Item const& item) const {
  return item.kernel.bandwidth > 0 ? 1 / slowdown() : 1;
}

Ns Simulation::next_device_time(Ns now) const {
  Ns next = kNever;
  for (auto const& item : items_) {
    if (!item.given && item.ready_at > now) {
      next = std::min(next, item.ready_at);
    }
  }
  for (auto const& batch : batches_) {
    auto const left = std::ceil(batch.left / rate_of(items_[batch.item]));
    next = std::min(next, now + std::max<Ns>(1, static_cast<Ns>(left)));
  }
  for (auto const& [direction, queue] : engines_) {
    if (!queue.empty()) {
      next = std::min(next, items_[queue.front()].activity.time.end);
    }
  }
  return next;
}

void Simulation::advance(Ns from, Ns to) {
  std::vector<double> rates;
  for (auto const& batch : batches_) {
    rates.push_back(rate_of(items_[batch.item]));
  }
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    batches_[i].left -= static_cast<double>(to - from) * rates[i];
  }
  for (auto batch = batches_.begin(); batch != batches_.end();) {
    if (batch->left > 0.5) {
      ++batch;
      continue;
    }
    auto& item = items_[batch->item];
    auto const block = of_block(item.kernel);
    for (std::size_t sm = 0; sm < free_.size(); ++sm) {
      for (std::size_t i = 0; i < block.size(); ++i) {
        free_[sm][i] += batch->blocks[sm] * block[i];
      }
      item.blocks_running -= batch->blocks[sm];
    }
    if (item.blocks_running == 0 && item.blocks_left == 0) {
      finish(batch->item, to);
    }
    batch = batches_.erase(batch);
  }
  for (auto& [direction, queue] : engines_) {
    if (!queue.empty() && items_[queue.front()].activity.time.end <= to) {
      finish(queue.front(), to);
      queue.erase(queue.begin());
    }
  }
}

void Simulation::finish(Index item, Ns now) {
  items_[item].done = true;
  items_[item].activity.time.end = now;
}

}  // namespace msstream::overlap::cases
