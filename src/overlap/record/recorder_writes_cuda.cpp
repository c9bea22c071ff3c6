// SPDX-License-Identifier: Apache-2.0
// The part of the recorder that writes the file, on its thread.
#include "overlap/record/convert_cuda.hpp"
#include "overlap/record/device_facts_cuda.hpp"
#include "overlap/record/range_log.hpp"
#include "overlap/record/recorder_cuda.hpp"
#include "overlap/record/signals.hpp"

#include <time.h>

#include <string_view>

namespace msstream::overlap::record {

namespace {

std::string reason_of(int why) {
  if (why == Recorder::kExit) {
    return "the program ended";
  }
  if (why == Recorder::kQuickExit) {
    return "the program ended by _exit()";
  }
  if (why == Recorder::kStopped) {
    return "the program ended the recording";
  }
  return "signal " + std::to_string(why);
}

}  // namespace

void Recorder::write_head(bool must) {
  if (head_is_written_) {
    return;
  }
  auto const facts = driver_facts();
  // The driver tells nothing until it is initialised, which ends after this recorder began.
  if (!facts && !must && ++ticks_ < 4) {
    return;
  }
  if (facts) {
    head_.devices = facts->devices;
    head_.driver_version = facts->version;
    for (DeviceFacts const& device : head_.devices) {
      writer_->add(device);
    }
  }
  file_.write(text_of(head_));
  head_is_written_ = true;
}

void Recorder::add_ranges(bool open) {
  Moment const moment = now();
  std::int64_t const offset = moment.recording - moment.unix_time;
  RangeLog& log = RangeLog::of_process();
  for (RangeLog::Range const& range : log.take(open)) {
    NamedRange named;
    named.time = {range.begin + offset, range.end == 0 ? moment.recording : range.end + offset};
    named.name = range.name;
    named.domain = range.domain == nullptr ? std::string_view() : *range.domain;
    named.thread = range.thread;
    named.of_process = range.of_process;
    writer_->add(named);
  }
  for (auto const& [thread, name] : log.take_thread_names()) {
    writer_->name_thread(thread, name);
  }
}

void Recorder::drain() {
  for (Buffers::Filled const& buffer : buffers_.take()) {
    convert(cupti_, buffer, thread_, *writer_);
    buffers_.give_back(buffer);
    if (head_is_written_ && writer_->bytes() > kPieceBytes) {
      file_.write(writer_->take());
    }
  }
  std::size_t dropped = 0;
  if (cupti_.get_dropped(nullptr, 0, &dropped) == CUPTI_SUCCESS) {
    foot_.dropped_records += dropped;
  }
}

void Recorder::end() {
  write_head(true);
  RangeLog& log = RangeLog::of_process();
  bool const was_open = [this] {
    std::lock_guard const lock(window_mutex_);
    return window_is_open_;
  }();
  close_window();
  {
    std::lock_guard const lock(window_mutex_);
    windows_are_over_ = true;
    foot_.windows = windows_;
  }
  if (settings_.in_program) {
    disable_always();
  }
  cupti_.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  drain();
  add_ranges(was_open);
  log.keep(false);
  writer_->settle(true);
  file_.write(writer_->take());
  foot_.end = now();
  if (auto const change = (foot_.end.recording - foot_.end.unix_time) -
                          (head_.start.recording - head_.start.unix_time);
      change > 50'000'000 || change < -50'000'000) {
    foot_.notes.emplace_back("the clock was set, or CUPTI's clock was replaced by the program");
  }
  foot_.reason = reason_of(why_);
  foot_.counts = writer_->counts();
  foot_.most_buffer_bytes = buffers_.most_bytes();
  timespec cpu{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  foot_.recorder_cpu_seconds =
      static_cast<double>(cpu.tv_sec) + static_cast<double>(cpu.tv_nsec) * 1e-9;
  if (foot_.windows.empty()) {
    foot_.notes.emplace_back(settings_.range.empty()
                                 ? "the program ended before the time of --skip was over"
                                 : "no NVTX range " + settings_.range + " began");
  }
  if (buffers_.refusals() > 0) {
    foot_.notes.emplace_back("the limit of memory was reached: records were dropped");
  }
  file_.finish(text_of(foot_));
  std::string message = "activities=" + std::to_string(foot_.counts.activities) +
                        " calls=" + std::to_string(foot_.counts.calls) +
                        " dropped=" + std::to_string(foot_.dropped_records);
  tell(true, message);
  for (std::string const& note : foot_.notes) {
    tell(true, note);
  }
  if (!file_.error().empty()) {
    tell(false, file_.error());
  }
  done_ = true;
  if (why_ > 0) {
    // The program's own thread may hold a lock that the end waited for, in which case it left the
    // signal handler without an end: the process ends here.
    raise_by_default(why_);
  }
}

}  // namespace msstream::overlap::record
