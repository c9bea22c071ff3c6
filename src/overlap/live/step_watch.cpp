// SPDX-License-Identifier: Apache-2.0
#include "memory/device/device_state.hpp"
#include "overlap/find/find.hpp"
#include "overlap/live/live_recording.hpp"
#include "overlap/live/overlap_contents.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/overlap/detail/step_watch.hpp>
#include <msstream/step/detail/step_recording.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::detail {

using overlap::HostLog;

class StepWatch::State {
 public:
  State(AnyDevice const& device, std::function<double()> now_ns)
      : device_(device.state()),
        log_(std::make_shared<HostLog>(std::move(now_ns))),
        recording_(std::in_place, device, SpanTiming::as_issued),
        begin_ns_(log_->now_ns()) {
    if (!tracker().host_calls.begin(log_)) {
      throw std::logic_error(
          "overlap_report: another device that shares the dependency tracker is "
          "being recorded");
    }
  }
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() { stop(); }

  void begin_step() { steps_.push_back(log_->now_ns()); }

  [[nodiscard]] std::shared_ptr<OverlapContents const> finish() {
    auto const end_ns = log_->now_ns();
    auto trace = recording_->finish();  // waits until everything is launched and complete
    stop();
    require(!trace.operations().empty(), "overlap_report: the steps issued no operations");
    overlap::WatchedSteps const watched{
        .trace = std::move(trace),
        .positions = recording_->positions(),
        .calls = log_->take(),
        .steps = steps_,
        .thread = std::this_thread::get_id(),
        .begin_ns = begin_ns_,
        .end_ns = end_ns,
        .runtime = std::string(device_->context->runtime->traits.name)};
    recording_.reset();  // frees the memory that it kept
    return std::make_shared<OverlapContents const>(overlap::recording_of(watched),
                                                   static_cast<int>(steps_.size()));
  }

 private:
  [[nodiscard]] DependencyTracker& tracker() const { return *device_->context->tracker; }
  void stop() noexcept {
    if (std::exchange(observing_, false)) {
      tracker().host_calls.end();
    }
  }

  std::shared_ptr<DeviceState> device_;
  std::shared_ptr<HostLog> log_;
  std::optional<StepRecording> recording_;
  double begin_ns_;
  std::vector<double> steps_;
  bool observing_ = true;
};

void StepWatch::check(int warm_up, int steps) {
  require(warm_up >= 0, "overlap_report: expected 0 or more steps to warm up, found {}", warm_up);
  require(steps >= 1, "overlap_report: expected at least one step to record, found {}", steps);
}

double StepWatch::steady_ns() noexcept {
  using Nanoseconds = std::chrono::duration<double, std::nano>;
  return Nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

StepWatch::StepWatch(AnyDevice const& device, std::function<double()> now_ns)
    : state_(std::make_unique<State>(device, std::move(now_ns))) {}
StepWatch::~StepWatch() = default;

void StepWatch::begin_step() {
  state_->begin_step();
}
std::shared_ptr<OverlapContents const> StepWatch::finish() {
  return state_->finish();
}

}  // namespace msstream::detail
