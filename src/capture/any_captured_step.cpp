// SPDX-License-Identifier: Apache-2.0
#include "capture/capture.hpp"
#include "capture/capture_memory.hpp"
#include "memory/device/device_state.hpp"
#include "tensor/operation_group.hpp"
#include "tensor/submit_observed.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/capture/detail/any_captured_step.hpp>

#include <cstddef>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

namespace msstream::detail {
namespace {

/// The most bytes that the memory of a single captured step takes from the runtime at a time:
/// unlimited, because more fresh memory means fewer waits between streams.
constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
/// The most bytes that memory shared by several captured steps takes from the runtime at a time:
/// few, to keep the memory small.
constexpr std::size_t kSharedGrowthBytes = std::size_t{2} << 20U;

/// Makes memory for captures that takes at most `growth_bytes` at a time from the runtime.
std::shared_ptr<CaptureMemory> make_memory(AnyDevice const& device,
                                           std::size_t growth_bytes,
                                           std::shared_ptr<StreamGroup> group) {
  return std::make_shared<CaptureMemory>(
      device.context(), device.state()->memory.make_capture_pools(growth_bytes), std::move(group));
}

/// The memory that the launch of a captured graph uses. memory() is empty, because an observing
/// runtime knows the graph's memory from the captured operations.
class ReplayedUses final : public ObservedUses {
 public:
  ReplayedUses(Capture::Captured const& captured, Backend& runtime) noexcept
      : captured_(&captured), runtime_(&runtime) {}

  [[nodiscard]] std::vector<MemoryUse> memory() const override { return {}; }
  [[nodiscard]] OperationParts parts() const override {
    return runtime_->parts_of(captured_->graph->native());
  }
  [[nodiscard]] std::vector<memory::Block*> blocks(AccessMode mode) const override {
    std::vector<memory::Block*> blocks;
    for (auto const& use : captured_->uses) {
      if (use.mode == mode) {
        blocks.push_back(&*use.block);
      }
    }
    return blocks;
  }

 private:
  Capture::Captured const* captured_;
  Backend* runtime_;
};

}  // namespace

std::shared_ptr<CaptureMemory> make_step_memory(AnyDevice const& device,
                                                std::shared_ptr<StreamGroup> group) {
  require(
      group == nullptr || (group->context() == device.context() && !group->captured()),
      "StepMemory: {} is of another device, or of a capture; expected a group of the device itself",
      group != nullptr ? group->name() : "");
  return make_memory(device, kSharedGrowthBytes, std::move(group));
}

class AnyCapturedStep::State {
 public:
  State(AnyDevice const& device,
        std::shared_ptr<CaptureMemory> memory,
        std::function<void()> const& function)
      : device_(device),
        memory_(memory != nullptr ? std::move(memory) : make_memory(device, kUnlimited, nullptr)),
        captured_(capture(*device_.state(), memory_, function)) {}
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() {
    if (device_.context()->home.is_left()) {
      HomeProcess::keep(captured_.graph);
      return;
    }
    auto& captures = device_.state()->memory.capture_pools();
    auto const last = replays_.log.writes();
    // The access records of the tensors' memory include the last replay, so later users of the
    // memory are ordered after it.
    captured_.uses.clear();
    try {
      captures.retire(captured_.graph, last);
    } catch (...) {
      for (auto const& replay : last) {
        device_.context()->tracker->finish(replay);
      }
    }
  }

  order::Position replay(std::source_location issued_at) {
    auto& state = *device_.state();
    state.context->home.require_here();
    if (OpenCapture::current(*state.context) != nullptr) {
      throw std::logic_error("a captured step is replayed inside a capture on its device");
    }
    AccessSet accesses;
    for (auto const& use : captured_.uses) {
      use.require_owner();
      use.require_as_captured();
      if (!use.block->immutable) {
        accesses.add(use.block->record, use.mode);
      }
    }
    for (auto const& check : captured_.checks) {
      check();
    }
    // One replay at a time, as far as copies follow it: each counts the writes before and after.
    std::unique_lock following(following_, std::defer_lock);
    if (!captured_.followers.empty()) {
      following.lock();
    }
    for (auto const& follower : captured_.followers) {
      follower->before_replay(issued_at);
    }
    accesses.add(replays_, AccessMode::write);  // the destructor waits for the last replay
    accesses.add(memory_->launches, AccessMode::write);
    constexpr char const* name = "replay";
    OperationGroup const chosen(state, name, memory_->libraries().lender());
    ReplayedUses const uses(captured_, *state.context->runtime);
    auto const position = submit_observed(
        {state, *chosen, name, StreamKind::compute, issued_at, uses},
        accesses,
        WorkRef::native([runtime = state.context->runtime.get(), graph = captured_.graph->native()](
                            NativeStream stream) { runtime->launch_graph(graph, stream); }));
    for (auto const& follower : captured_.followers) {
      follower->after_replay();
    }
    return position;
  }
  [[nodiscard]] NativeGraph native() const {
    if (!captured_.followers.empty()) {
      throw std::logic_error(
          "CapturedStep::native: the step uses copies of parameters that an optimizer keeps in "
          "half precision, which a launch of the graph would not follow; use replay(), or "
          "OptimizerOptions::copies of fp32");
    }
    // The dependency tracker does not see what a launch of the graph writes.
    for (auto const& use : captured_.uses) {
      if (use.mode == AccessMode::write) {
        use.block->shared_outside.store(true, std::memory_order_relaxed);
      }
    }
    return captured_.graph->native();
  }

 private:
  using Captured = Capture::Captured;

  static Captured capture(DeviceState& state,
                          std::shared_ptr<CaptureMemory> const& memory,
                          std::function<void()> const& function) {
    state.memory.capture_pools().sweep();
    Capture open(state.context, memory);
    open.if_not_ended(function);
    return open.end();
  }

  AnyDevice device_;
  std::shared_ptr<CaptureMemory> memory_;
  Captured captured_;
  AccessRecord replays_;
  std::mutex following_;  ///< held from before_replay() to after_replay()
};

AnyCapturedStep::AnyCapturedStep(AnyDevice const& device,
                                 std::shared_ptr<CaptureMemory> memory,
                                 std::function<void()> const& function)
    : state_(std::make_unique<State>(device, std::move(memory), function)) {}
AnyCapturedStep::~AnyCapturedStep() = default;

order::Position AnyCapturedStep::replay(std::source_location issued_at) {
  return state_->replay(issued_at);
}
NativeGraph AnyCapturedStep::native() const {
  return state_->native();
}

bool settle_replays(AnyDevice const& device, order::PositionSet const& replays) {
  auto& tracker = *device.context()->tracker;
  bool waited = false;
  for (auto const& replay : replays) {
    if (!tracker.is_complete(replay)) {
      tracker.synchronize(replay);
      waited = true;
    }
  }
  device.state()->memory.capture_pools().sweep();
  return waited;
}

}  // namespace msstream::detail
