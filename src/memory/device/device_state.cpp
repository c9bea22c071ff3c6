// SPDX-License-Identifier: Apache-2.0
#include "memory/device/device_state.hpp"

#include "runtime/settled_at_exit.hpp"

#include <msstream/runtime/detail/home_process.hpp>

#include <fmt/core.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

namespace msstream::detail {

namespace {

std::shared_ptr<StreamContext> make_context(std::shared_ptr<Backend> runtime,
                                            EngineOptions const& options) {
  auto const life = runtime->traits.life;
  auto tracker = options.tracker != nullptr
                     ? options.tracker
                     : std::make_shared<DependencyTracker>(
                           life, TrackerOptions{options.reduce_waits, options.explain_waits});
  return make_at_home<StreamContext>(
      HomeProcess(life),
      std::move(runtime),
      std::move(tracker),
      LibraryOptions{options.workspace_bytes, options.matmul_precision, options.tune_products});
}

}  // namespace

DeviceState::DeviceState(std::shared_ptr<Backend> runtime, EngineOptions const& options)
    : context(make_context(std::move(runtime), options)),
      memory(context, options.memory),
      pinned(context, options.memory) {
  if (nvtx_listens()) {
    counters_ = std::make_unique<Counters>(
        fmt::format("{} {}", context->runtime->traits.name, context->runtime->ordinal()));
  }
  settle_at_exit(
      context->runtime->traits.life, context, SettleOrder::streams, [](StreamContext& ending) {
        ending.settle();
      });
}

StreamGroup& DeviceState::make_default_group() {
  // std::call_once is not used: where it is based on pthread_once, an exception leaves it locked.
  std::lock_guard const guard(default_group_mutex_);
  if (default_group_ == nullptr) {
    default_group_ = StreamGroup::make(context, -1);
  }
  default_group_made_.store(default_group_.get(), std::memory_order_release);
  return *default_group_;
}

memory::BlockRef DeviceState::allocate(std::size_t bytes,
                                       StreamKind first_use,
                                       std::shared_ptr<DeviceState> const& self) {
  context->home.require_here();
  auto const placement = context->placement.current();  // keeps the groups alive
  auto* const expected = placement != nullptr ? placement->expected() : nullptr;
  auto& group = expected != nullptr ? here(*expected) : current_group();
  auto block = memory.allocate(bytes, group.stream(first_use).slot(), self);
  if (counters_ != nullptr) [[unlikely]] {
    sample_memory();
  }
  return block;
}

void note_free(DeviceState& device) noexcept {
  try {
    if (device.counters_ != nullptr && !device.context->home.is_left()) {
      device.sample_memory();
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch): the curve misses a sample
  }
}

void DeviceState::sample_memory(std::chrono::nanoseconds period) {
  auto const now = std::chrono::steady_clock::now().time_since_epoch();
  auto const now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  auto before = counters_->sampled_ns.load(std::memory_order_relaxed);
  if (now_ns - before < period.count() ||
      !counters_->sampled_ns.compare_exchange_strong(before, now_ns)) {
    return;
  }
  auto const statistics = memory.statistics();
  counters_->live.sample(static_cast<std::int64_t>(statistics.live_bytes));
  counters_->reserved.sample(static_cast<std::int64_t>(statistics.reserved_bytes));
}

void DeviceState::run_checks() {
  context->home.require_here();
  context->run_checks();
  memory.release_unneeded();
  pinned.release_unneeded();
  if (counters_ != nullptr) [[unlikely]] {
    sample_memory(std::chrono::nanoseconds(0));  // the host has waited: much may be free now
  }
}

void DeviceState::change_handles(int by) {
  if (context->home.is_left()) {
    return;
  }
  std::lock_guard const guard(handles_mutex_);
  handles_ += by;
  bool const abandoned = handles_ == 0;
  if (abandoned || (by > 0 && handles_ == 1)) {
    memory.set_abandoned(abandoned);
    pinned.set_abandoned(abandoned);
  }
}

}  // namespace msstream::detail
