// SPDX-License-Identifier: Apache-2.0
#include "memory/device/device_state.hpp"
#include "memory/device/issue_observer.hpp"

#include <msstream/step/detail/step_recording.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msstream::detail {

/// Records the operations that are issued to a device, and keeps the memory that they use alive.
class StepRecorder : public IssueObserver {
 public:
  /// Starts or stops the recording of operations. Operations may be recorded only while their times
  /// are taken.
  void note(bool notes) {
    std::lock_guard const guard(order());
    notes_ = notes;
  }
  void issued(IssuedOperation const& operation) override {
    if (!notes_) {
      return;
    }
    auto& group = operation.group;
    auto const stream = stream_of(group, operation.position.stream);
    StepTrace::Operation noted{
        .name = NameScope::qualify(operation.name), .stream = stream, .kind = operation.kind};
    for (auto* const block : operation.reads) {
      noted.reads.push_back(number_of(*block));
    }
    for (auto* const block : operation.writes) {
      noted.writes.push_back(number_of(*block));
    }
    numbers_.emplace(key(operation.position), operations_.size());
    positions_.push_back(operation.position);
    operations_.push_back(std::move(noted));
  }
  void was_collective(IssuedCollective const& collective) override {
    std::lock_guard const guard(order());
    if (auto const found = numbers_.find(key(collective.position)); found != numbers_.end()) {
      operations_[found->second].collective =
          StepTrace::Collective{comm::collective_kind_named(collective.kind).value(),
                                collective.bytes,
                                collective.communicator,
                                collective.ranks};
    }
  }

  /// Returns the recorded operations with their times. No thread may issue operations any more when
  /// it is called.
  [[nodiscard]] StepTrace trace(trace::Timeline const& timeline, WaitCounts const& waits) {
    std::lock_guard const guard(order());
    std::vector<bool> timed(operations_.size(), false);
    for (auto const& span : timeline.spans()) {
      auto const found = numbers_.find(key({span.stream, span.number}));
      if (found != numbers_.end()) {
        auto& operation = operations_[found->second];
        operation.begin_ns = span.begin_ns;
        operation.end_ns = std::max(span.begin_ns, span.end_ns);
        operation.launch_ns = span.launch_ns;
        timed[found->second] = true;
      }
    }
    for (std::size_t i = 0; i < timed.size(); ++i) {
      if (!timed[i]) {
        throw std::logic_error(
            fmt::format("record_step: the operation '{}' has no time, though it was launched",
                        operations_[i].name));
      }
    }
    return {std::move(streams_), std::move(bytes_), std::move(operations_), waits};
  }

  [[nodiscard]] std::vector<order::Position> const& positions() const noexcept {
    return positions_;
  }

 private:
  static std::pair<order::StreamIndex, std::uint64_t> key(order::Position position) {
    return {position.stream, position.number};
  }
  std::size_t stream_of(StreamGroup& group, order::StreamIndex index) {
    auto const [found, is_new] = stream_numbers_.try_emplace(index, streams_.size());
    if (is_new) {
      auto const name = group.context()->tracker->identity_of(index).name;
      streams_.push_back({name, group.index(), group.merged()});
    }
    return found->second;
  }
  std::size_t number_of(memory::Block& block) {
    auto const [found, is_new] = memory_numbers_.try_emplace(&block, bytes_.size());
    if (is_new) {
      held_.push_back(memory::BlockRef::share(block));
      bytes_.push_back(block.bytes);
    }
    return found->second;
  }

  bool notes_ = false;
  std::vector<StepTrace::Stream> streams_;
  std::vector<std::size_t> bytes_;
  std::vector<StepTrace::Operation> operations_;
  std::vector<order::Position> positions_;  ///< of operations_
  std::map<order::StreamIndex, std::size_t> stream_numbers_;
  std::unordered_map<memory::Block*, std::size_t> memory_numbers_;
  std::map<std::pair<order::StreamIndex, std::uint64_t>, std::size_t> numbers_;
  std::vector<memory::BlockRef> held_;
};

namespace {

/// Blocks the host until all work issued to the device is launched and complete.
void wait_for_all(DeviceState& state) {
  auto& tracker = *state.context->tracker;
  for (auto const& position : tracker.newest_positions()) {
    if (!tracker.is_captured(position)) {
      tracker.synchronize(position);
    }
  }
  state.context->rethrow_launch_failure();
}

/// Waits until all earlier work of the device is complete, so that a recording can begin, and
/// returns `state`. Throws std::logic_error inside a capture.
DeviceState& at_rest(DeviceState& state) {
  if (OpenCapture::current(*state.context) != nullptr) {
    throw std::logic_error("record_step: inside a capture of the device, where nothing runs");
  }
  wait_for_all(state);
  return state;
}

}  // namespace

class StepRecording::State {
 public:
  /// Takes no times without `timing`.
  State(DeviceState& state, std::optional<SpanTiming> timing)
      : state_(at_rest(state)), recorder_(std::make_shared<StepRecorder>()) {
    if (!state.issue_observer.begin(recorder_)) {
      throw std::logic_error("record_step: a step of the device is being recorded already");
    }
    try {
      if (state.context->spans.recording()) {
        throw std::logic_error("record_step: spans of the device are being recorded already");
      }
      before_ = state.context->tracker->wait_counts();
      if (timing) {
        state.context->spans.start(state.current_group().compute().native(), *timing);
      } else {
        state.context->spans.start_without_events();
      }
    } catch (...) {
      state.issue_observer.end();
      throw;
    }
    recorder_->note(true);
  }
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() {
    if (observing_) {
      state_.issue_observer.end();
    }
    if (timing_) {
      state_.context->spans.abandon();
    }
  }

  [[nodiscard]] StepTrace finish() {
    recorder_->note(false);
    state_.issue_observer.end();
    observing_ = false;
    wait_for_all(state_);  // the times of all recorded operations are known after the wait
    auto waits = state_.context->tracker->wait_counts();
    waits.needed -= before_.needed;
    waits.issued -= before_.issued;
    waits.elided -= before_.elided;
    auto const timeline = state_.context->spans.stop();
    timing_ = false;
    return recorder_->trace(timeline, waits);
  }
  [[nodiscard]] std::vector<order::Position> const& positions() const noexcept {
    return recorder_->positions();
  }

 private:
  DeviceState& state_;
  std::shared_ptr<StepRecorder> recorder_;
  WaitCounts before_;  ///< the counts of waits when the recording began
  bool observing_ = true;
  bool timing_ = true;
};

StepRecording::StepRecording(AnyDevice const& device, SpanTiming timing)
    : state_(std::make_unique<State>(*device.state(), timing)) {}
StepRecording::StepRecording(AnyDevice const& device)
    : state_(std::make_unique<State>(*device.state(), std::nullopt)) {}
StepRecording::~StepRecording() = default;

StepTrace StepRecording::finish() {
  return state_->finish();
}
std::vector<order::Position> const& StepRecording::positions() const noexcept {
  return state_->positions();
}

}  // namespace msstream::detail
