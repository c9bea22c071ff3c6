// SPDX-License-Identifier: Apache-2.0
#include "memory/device/device_state.hpp"
#include "overlap/find/find.hpp"
#include "overlap/live/live_recording.hpp"
#include "overlap/live/overlap_contents.hpp"
#include "overlap/live/program_trace.hpp"

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
  State(AnyDevice const& device, std::function<double()> now_ns, Times times)
      : device_(device), state_(device.state()), clock_(std::move(now_ns)) {
    auto const name = state_->context->runtime->traits.name;
    if (times == Times::cupti || (times == Times::of_runtime && name == "cuda")) {
      state_->context->runtime->make_current();  // the recorder describes its context
      traced_ = overlap::ProgramTrace::begin(why_no_cupti_);
    }
  }
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() { stop(); }

  void begin() {
    log_ = std::make_shared<HostLog>(clock_);
    steps_.clear();
    if (traced_ != nullptr) {
      recording_.emplace(device_);
    } else {
      recording_.emplace(device_, SpanTiming::as_issued);
    }
    begin_ns_ = log_->now_ns();
    if (!tracker().host_calls.begin(log_)) {
      recording_.reset();
      throw std::logic_error(
          "overlap_report: another device that shares the dependency tracker is "
          "being recorded");
    }
    observing_ = true;
  }

  void begin_step() { steps_.push_back(log_->now_ns()); }

  [[nodiscard]] std::shared_ptr<OverlapContents const> finish() {
    auto const end_ns = log_->now_ns();
    auto trace = recording_->finish();  // waits until everything is launched and complete
    stop();
    bool const has_operations = !trace.operations().empty();
    overlap::WatchedSteps const watched{
        .trace = std::move(trace),
        .positions = recording_->positions(),
        .calls = log_->take(),
        .steps = steps_,
        .thread = std::this_thread::get_id(),
        .system_thread = HostLog::system_number_of_thread(),
        .begin_ns = begin_ns_,
        .end_ns = end_ns,
        .runtime = std::string(state_->context->runtime->traits.name),
        .why_no_cupti = why_no_cupti_};
    recording_.reset();  // frees the memory that it kept
    if (traced_ == nullptr) {
      require(has_operations, "overlap_report: the steps issued no operations");
      return contents_of(overlap::recording_of(watched));
    }
    auto traced = traced_->end();
    traced_.reset();
    auto recording = overlap::recording_of(watched, std::move(traced));
    require(!recording.activities.empty(),
            "overlap_report: the steps issued no work to the device");
    return contents_of(std::move(recording));
  }

 private:
  [[nodiscard]] std::shared_ptr<OverlapContents const> contents_of(
      overlap::Recording recording) const {
    return std::make_shared<OverlapContents const>(std::move(recording),
                                                   static_cast<int>(steps_.size()));
  }
  [[nodiscard]] DependencyTracker& tracker() const { return *state_->context->tracker; }
  void stop() noexcept {
    if (std::exchange(observing_, false)) {
      tracker().host_calls.end();
    }
  }

  AnyDevice device_;
  std::shared_ptr<DeviceState> state_;
  std::function<double()> clock_;
  std::unique_ptr<overlap::ProgramTrace> traced_;  ///< nullptr if operations are timed by events
  std::string why_no_cupti_;
  std::shared_ptr<HostLog> log_;
  std::optional<StepRecording> recording_;
  double begin_ns_ = 0;
  std::vector<double> steps_;
  bool observing_ = false;
};

void StepWatch::check(int warm_up, int steps) {
  require(warm_up >= 0, "overlap_report: expected 0 or more steps to warm up, found {}", warm_up);
  require(steps >= 1, "overlap_report: expected at least one step to record, found {}", steps);
}

double StepWatch::steady_ns() noexcept {
  using Nanoseconds = std::chrono::duration<double, std::nano>;
  return Nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

StepWatch::StepWatch(AnyDevice const& device, std::function<double()> now_ns, Times times)
    : state_(std::make_unique<State>(device, std::move(now_ns), times)) {}
StepWatch::~StepWatch() = default;

void StepWatch::begin() {
  state_->begin();
}
void StepWatch::begin_step() {
  state_->begin_step();
}
std::shared_ptr<OverlapContents const> StepWatch::finish() {
  return state_->finish();
}

}  // namespace msstream::detail
