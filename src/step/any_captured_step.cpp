// SPDX-License-Identifier: Apache-2.0
#include "memory/device/device_state.hpp"
#include "tensor/operation_group.hpp"
#include "tensor/submit_observed.hpp"

#include <msstream/step/detail/any_captured_step.hpp>

#include <stdexcept>
#include <utility>
#include <vector>

namespace msstream::detail {
namespace {

/// The memory that a graph uses. An observing runtime knows it from the captured operations.
class ReplayedUses final : public ObservedUses {
 public:
  ReplayedUses(memory::Capture::Captured const& captured, Backend& runtime) noexcept
      : captured_(&captured), runtime_(&runtime) {}

  [[nodiscard]] std::vector<MemoryUse> memory() const override { return {}; }
  [[nodiscard]] OperationParts parts() const override {
    return runtime_->parts_of(*captured_->work->graph);
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
  memory::Capture::Captured const* captured_;
  Backend* runtime_;
};

}  // namespace

class AnyCapturedStep::State {
 public:
  State(AnyDevice const& device, AnyStepMemory const& memory, std::function<void()> const& function)
      : device_(device),
        memory_(memory.engine()),
        captured_(capture(*device_.state(), memory_, function)) {}
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() {
    if (device_.context()->home.is_left()) {
      return;
    }
    auto& captures = device_.state()->memory.captures();
    auto const last = replays_.log.writes();
    // The access records of the memory include the last replay, so that later users of the memory
    // are ordered after it.
    captured_.uses.clear();
    try {
      captures.retire(captured_.work, last);
    } catch (...) {
      for (auto const& replay : last) {
        device_.context()->tracker->finish(replay);
      }
    }
  }

  order::Position replay(std::source_location issued_at) {
    auto& state = *device_.state();
    state.context->home.require_here();
    if (memory::Capture::current(*state.context) != nullptr) {
      throw std::logic_error("a captured step is replayed inside a capture on its device");
    }
    AccessSet accesses;
    for (auto const& use : captured_.uses) {
      memory::require_owner(use);
      if (!use.block->immutable) {
        accesses.add(use.block->record, use.mode);
      } else if (use.mode == AccessMode::write) {
        throw std::logic_error("a captured step writes a tensor that has become immutable");
      }
    }
    accesses.add(replays_, AccessMode::write);  // the destructor waits for it
    accesses.add(memory_->launches, AccessMode::write);
    constexpr char const* name = "replay";
    OperationGroup const chosen(state, name, memory_->libraries().lender());
    ReplayedUses const uses(captured_, *state.context->runtime);
    return submit_observed(
        {state, *chosen, name, StreamKind::compute, issued_at, uses},
        accesses,
        WorkRef::native([runtime = state.context->runtime.get(), graph = *captured_.work->graph](
                            NativeStream stream) { runtime->launch_graph(graph, stream); }));
  }
  [[nodiscard]] NativeGraph native() const noexcept { return *captured_.work->graph; }

 private:
  using Captured = memory::Capture::Captured;

  static Captured capture(DeviceState& state,
                          std::shared_ptr<memory::CaptureMemory> const& memory,
                          std::function<void()> const& function) {
    state.memory.captures().sweep();
    memory::Capture open(state.context, memory);
    open.if_not_ended(function);
    return open.end();
  }

  AnyDevice device_;
  std::shared_ptr<memory::CaptureMemory> memory_;
  Captured captured_;
  AccessRecord replays_;
};

AnyCapturedStep::AnyCapturedStep(AnyDevice const& device,
                                 AnyStepMemory const& memory,
                                 std::function<void()> const& function)
    : state_(std::make_unique<State>(device, memory, function)) {}
AnyCapturedStep::~AnyCapturedStep() = default;

order::Position AnyCapturedStep::replay(std::source_location issued_at) {
  return state_->replay(issued_at);
}
NativeGraph AnyCapturedStep::native() const noexcept {
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
  device.state()->memory.captures().sweep();
  return waited;
}

}  // namespace msstream::detail
