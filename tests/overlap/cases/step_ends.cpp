// SPDX-License-Identifier: Apache-2.0
#include "overlap/cases/step_ends.hpp"

namespace msstream::overlap::cases {

StepEnd StepEnds::current_ = StepEnd::nothing;

/// Returns the shortest run of calls that a thread repeats to its end, at least once, from the
/// first quarter of its calls on; several of them, so that there are at most 8.
StepEnds::Repeated StepEnds::step_of(HostThread const& thread) {
  constexpr std::size_t kMostSteps = 8;
  auto const& steps = thread.steps_;
  auto const equal = [](HostThread::Step const& a, HostThread::Step const& b) {
    return a.what == b.what && a.stream == b.stream && a.bytes == b.bytes &&
           a.kernel.blocks == b.kernel.blocks && a.nodes.size() == b.nodes.size();
  };
  for (std::size_t first = 0; 4 * first <= steps.size(); ++first) {
    auto const count = steps.size() - first;
    for (std::size_t length = 1; 2 * length <= count; ++length) {
      std::size_t at = first;
      while (at + length < steps.size() && equal(steps[at], steps[at + length])) {
        ++at;
      }
      if (at + length == steps.size()) {
        auto const repeats = count / length;
        return {first, length * ((repeats + kMostSteps - 1) / kMostSteps)};
      }
    }
  }
  return {0, steps.size()};
}

TraceBuilder StepEnds::applied_to(TraceBuilder const& program) {
  auto changed = program;
  if (current_ == StepEnd::nothing) {
    return changed;
  }
  auto const steps = std::move(changed.threads_[0].steps_);
  auto const step = step_of(program.threads_[0]);
  HostThread thread;
  StreamNumber last = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].what == HostThread::Do::launch || steps[i].what == HostThread::Do::graph) {
      last = steps[i].stream;
    }
    thread.add(steps[i]);
    if (i < step.first || (i + 1 - step.first) % step.length != 0) {
      continue;
    }
    if (current_ == StepEnd::synchronize_device) {
      thread.sync_device();
      continue;
    }
    if (current_ == StepEnd::read_value) {
      thread.copy(last, CopyDirection::d2h, 4, MemoryKind::pageable);
    }
    thread.sync_stream(last);
  }
  changed.threads_[0] = std::move(thread);
  return changed;
}

}  // namespace msstream::overlap::cases
