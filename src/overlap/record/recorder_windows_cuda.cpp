// SPDX-License-Identifier: Apache-2.0
// The part of the recorder that tells CUPTI what to record, always and in windows.
#include "overlap/record/calls.hpp"
#include "overlap/record/device_facts_cuda.hpp"
#include "overlap/record/range_log.hpp"
#include "overlap/record/recorder_cuda.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace msstream::overlap::record {

namespace {

/// The kinds that windows switch, with their names in Settings::without.
constexpr std::pair<CUpti_ActivityKind, std::string_view> kKindsOfWindows[] = {
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernel"},
    {CUPTI_ACTIVITY_KIND_MEMCPY, "copy"},
    {CUPTI_ACTIVITY_KIND_MEMCPY2, "copy"},
    {CUPTI_ACTIVITY_KIND_MEMSET, "fill"},
    {CUPTI_ACTIVITY_KIND_RUNTIME, "runtime"},
    {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "sync"},
    {CUPTI_ACTIVITY_KIND_CUDA_EVENT, "event"},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, "overhead"}};

/// All names of kinds, those of windows too.
constexpr std::string_view kKinds[] = {"kernel",
                                       "copy",
                                       "fill",
                                       "runtime",
                                       "driver",
                                       "sync",
                                       "event",
                                       "overhead",
                                       "graph",
                                       "stream",
                                       "launch-calls"};

}  // namespace

void Recorder::set_attributes() {
  auto const set = [this](CUpti_ActivityAttribute attribute, auto value) {
    std::size_t bytes = sizeof value;
    if (cupti_.set_attribute != nullptr) {
      cupti_.set_attribute(attribute, &bytes, &value);
    }
  };
  set(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, std::uint8_t{1});
  if (cupti_.set_thread_id_type != nullptr) {
    cupti_.set_thread_id_type(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  }
  for (std::string const& kind : settings_.without) {
    bool const is_known = std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds);
    head_.notes.push_back((is_known ? "recorded without: " : "unknown kind: ") + kind);
  }
}

void Recorder::enable_always() {
  // Streams and contexts are made before a window that begins later.
  for (auto const kind : {CUPTI_ACTIVITY_KIND_CONTEXT, CUPTI_ACTIVITY_KIND_STREAM}) {
    if (settings_.leaves_out("stream")) {
      break;
    }
    if (auto const code = cupti_.enable(kind); code != CUPTI_SUCCESS) {
      head_.notes.push_back("streams are not described: " + cupti_.describe(code));
    }
  }
  // Switched on later, CUPTI 13.0 ends the program at the launch of a graph that exists already.
  if (!settings_.graph_nodes && !settings_.leaves_out("graph")) {
    cupti_.enable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  }
}

void Recorder::disable_always() {
  for (auto const kind :
       {CUPTI_ACTIVITY_KIND_CONTEXT, CUPTI_ACTIVITY_KIND_STREAM, CUPTI_ACTIVITY_KIND_GRAPH_TRACE}) {
    cupti_.disable(kind);
  }
}

void Recorder::describe_context() {
  CUcontext const context = context_of_caller();
  ContextMade made;
  if (context != nullptr && cupti_.get_context_id != nullptr && cupti_.get_device_id != nullptr &&
      cupti_.get_stream_id != nullptr &&
      cupti_.get_context_id(context, &made.context) == CUPTI_SUCCESS &&
      cupti_.get_device_id(context, &made.device) == CUPTI_SUCCESS &&
      cupti_.get_stream_id(context, nullptr, 0, &made.null_stream) == CUPTI_SUCCESS) {
    writer_->add(made);
  }
}

void Recorder::find_calls() {
  constexpr std::uint32_t kMostCalls = 1200;
  for (std::uint32_t number = 1; number < kMostCalls; ++number) {
    std::string_view const call = cupti_.call_name(CUPTI_CB_DOMAIN_RUNTIME_API, number);
    if (is_uninteresting(call) ||
        (call.starts_with("cudaLaunchKernel") && settings_.leaves_out("launch-calls"))) {
      unwanted_runtime_calls_.push_back(number);
    }
    std::string_view const of_driver = cupti_.call_name(CUPTI_CB_DOMAIN_DRIVER_API, number);
    if (!of_driver.empty() && !is_interesting(of_driver)) {
      unwanted_driver_calls_.push_back(number);
    }
  }
}

void Recorder::choose_calls() {
  if (cupti_.enable_runtime_call != nullptr) {
    for (auto const number : unwanted_runtime_calls_) {
      cupti_.enable_runtime_call(number, 0);
    }
  }
  if (settings_.leaves_out("driver")) {
    return;
  }
  // All calls are enabled and then some disabled: single calls that are enabled after CUDA's
  // initialisation are not recorded.
  cupti_.enable(CUPTI_ACTIVITY_KIND_DRIVER);
  if (cupti_.enable_driver_call == nullptr) {
    return;
  }
  for (auto const number : unwanted_driver_calls_) {
    cupti_.enable_driver_call(number, 0);
  }
}

void Recorder::open_window() {
  std::lock_guard const lock(window_mutex_);
  if (window_is_open_ || windows_are_over_) {
    return;
  }
  for (auto const& [kind, name] : kKindsOfWindows) {
    if (settings_.leaves_out(name)) {
      continue;
    }
    if (auto const code = cupti_.enable(kind); code != CUPTI_SUCCESS) {
      foot_.notes.push_back("kind " + std::to_string(kind) +
                            " was not recorded: " + cupti_.describe(code));
      is_without_kernels_ |= kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    }
  }
  choose_calls();
  if (cupti_.enable_all_syncs != nullptr) {
    cupti_.enable_all_syncs(0);
  }
  RangeLog::of_process().keep(true);
  window_is_open_ = true;
  windows_.emplace_back(now().recording - head_.start.recording, -1);
}

void Recorder::close_window() {
  std::lock_guard const lock(window_mutex_);
  if (!window_is_open_) {
    return;
  }
  for (auto const& [kind, name] : kKindsOfWindows) {
    cupti_.disable(kind);
  }
  cupti_.disable(CUPTI_ACTIVITY_KIND_DRIVER);
  RangeLog::of_process().keep(false);
  window_is_open_ = false;
  windows_.back().second = now().recording - head_.start.recording;
}

}  // namespace msstream::overlap::record
