// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/step/step_trace.hpp>
#include <msstream/tensor/issue.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msstream {

namespace detail {

/// Records the operations of a device, and holds the memory that they use.
template <Runtime R>
class StepRecorder : public IssueObserver<R> {
 public:
  /// Starts or stops the recording of operations, which must be on only while times are taken.
  void note(bool notes) {
    std::lock_guard const guard(this->order());
    notes_ = notes;
  }
  void issued(IssuedOperation<R> const& operation) override {
    if (!notes_) {
      return;
    }
    auto& group = operation.group;
    auto const stream = stream_of(group, operation.position.stream);
    StepOperation noted{
        .name = NameScope::qualify(operation.name), .stream = stream, .kind = operation.kind};
    for (auto* const block : operation.reads) {
      noted.reads.push_back(number_of(*block));
    }
    for (auto* const block : operation.writes) {
      noted.writes.push_back(number_of(*block));
    }
    numbers_.emplace(key(operation.position), operations_.size());
    operations_.push_back(std::move(noted));
  }

  /// Returns the recorded operations with their times. No thread may issue operations any more.
  [[nodiscard]] StepTrace trace(trace::Timeline const& timeline, WaitCounts const& waits) {
    std::lock_guard const guard(this->order());
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
        throw std::logic_error(text("record_step: the operation '",
                                    operations_[i].name,
                                    "' has no time, though it was launched"));
      }
    }
    return {std::move(streams_), std::move(bytes_), std::move(operations_), waits};
  }

 private:
  static std::pair<order::StreamIndex, std::uint64_t> key(order::Position position) {
    return {position.stream, position.number};
  }
  std::size_t stream_of(StreamGroup<R>& group, order::StreamIndex index) {
    auto const [found, is_new] = stream_numbers_.try_emplace(index, streams_.size());
    if (is_new) {
      auto const name = group.context()->tracker->identity_of(index).name;
      streams_.push_back({name, group.index(), group.merged()});
    }
    return found->second;
  }
  std::size_t number_of(memory::Block<R>& block) {
    auto const [found, is_new] = memory_numbers_.try_emplace(&block, bytes_.size());
    if (is_new) {
      held_.push_back(memory::BlockRef<R>::share(block));
      bytes_.push_back(block.bytes);
    }
    return found->second;
  }

  bool notes_ = false;
  std::vector<StepStream> streams_;
  std::vector<std::size_t> bytes_;
  std::vector<StepOperation> operations_;
  std::map<order::StreamIndex, std::size_t> stream_numbers_;
  std::unordered_map<memory::Block<R>*, std::size_t> memory_numbers_;
  std::map<std::pair<order::StreamIndex, std::uint64_t>, std::size_t> numbers_;
  std::vector<memory::BlockRef<R>> held_;
};

/// A guard during whose lifetime the operations of a device are recorded and timed.
template <Runtime R>
class StepRecording {
 public:
  StepRecording(DeviceState<R>& state, SpanTiming timing)
      : state_(state), recorder_(std::make_shared<StepRecorder<R>>()) {
    if (!state.issue_observer.begin(recorder_)) {
      throw std::logic_error("record_step: a step of the device is being recorded already");
    }
    try {
      if (state.context->spans.recording()) {
        throw std::logic_error("record_step: spans of the device are being recorded already");
      }
      state.context->spans.start(state.current_group().compute().native(), timing);
    } catch (...) {
      state.issue_observer.end();
      throw;
    }
    recorder_->note(true);
  }
  StepRecording(StepRecording const&) = delete;
  StepRecording& operator=(StepRecording const&) = delete;
  ~StepRecording() {
    if (observing_) {
      state_.issue_observer.end();
    }
    if (timing_) {
      state_.context->spans.abandon();
    }
  }

  [[nodiscard]] StepTrace finish(WaitCounts const& before) {
    recorder_->note(false);
    state_.issue_observer.end();
    observing_ = false;
    wait_for_all(state_);  // the times of all recorded operations are then known
    auto waits = state_.context->tracker->wait_counts();
    waits.needed -= before.needed;
    waits.issued -= before.issued;
    waits.elided -= before.elided;
    auto const timeline = state_.context->spans.stop();
    timing_ = false;
    return recorder_->trace(timeline, waits);
  }

  /// Blocks the host until all work of the device's tracker is launched and complete.
  static void wait_for_all(DeviceState<R>& state) {
    auto& tracker = *state.context->tracker;
    for (auto const& position : tracker.newest_positions()) {
      if (!tracker.is_captured(position)) {
        tracker.synchronize(position);
      }
    }
    state.context->rethrow_launch_failure();
  }

 private:
  DeviceState<R>& state_;
  std::shared_ptr<StepRecorder<R>> recorder_;
  bool observing_ = true;
  bool timing_ = true;
};

}  // namespace detail

/// Runs `step`, which issues the operations of one step to the device as usual, and returns these
/// operations, their dependencies and their times.
///
/// Blocks the host until all earlier work is complete, and again until the step is complete.
/// Meanwhile the operations that any thread issues to the device are recorded. Operations are
/// issued one at a time, and each needs two timed events. All memory that operations use stays
/// allocated, so that no operation depends on another one only because the allocator reused memory;
/// the step therefore needs as much memory as if it freed none.
///
/// With SpanTiming::held operations run one at a time, and their times are not affected by other
/// work, as predict() needs them; SpanTiming describes what cannot be recorded in this way. With
/// SpanTiming::as_issued the trace shows the step as it is issued; the time of a short operation on
/// an idle device then includes its launch by the host.
///
/// Captured operations run later and are not recorded; a replay is one operation. Raw memory
/// belongs to no tensor and gives no dependencies. Throws what `step` throws, and std::logic_error
/// while another recording of the device is in progress, while its spans are recorded, and inside a
/// capture of the device.
template <Runtime R, class Step>
[[nodiscard]] StepTrace record_step(Device<R> const& device,
                                    Step&& step,
                                    SpanTiming timing = SpanTiming::held) {
  auto& state = *device.state();
  if constexpr (CapturingRuntime<R>) {
    if (memory::Capture<R>::current(*state.context) != nullptr) {
      throw std::logic_error("record_step: inside a capture of the device, where nothing runs");
    }
  }
  detail::StepRecording<R>::wait_for_all(state);
  detail::StepRecording<R> recording(state, timing);
  auto const before = device.wait_counts();
  std::forward<Step>(step)();
  return recording.finish(before);
}

}  // namespace msstream
