// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/host_capture.hpp"

#include <msstream/base/error.hpp>
#include <msstream/runtime/capturing.hpp>

#include <algorithm>
#include <utility>

namespace msstream {

namespace {

/// Returns the next value of the random number generator SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t mixed(std::uint64_t value) noexcept {
  value += 0x9E37'79B9'7F4A'7C15;
  value = (value ^ (value >> 30U)) * 0xBF58'476D'1CE4'E5B9;
  value = (value ^ (value >> 27U)) * 0x94D0'49BB'1331'11EB;
  return value ^ (value >> 31U);
}

}  // namespace

std::size_t HostProgram::add(Closure work, Nodes const& after) {
  std::size_t const node = nodes_.size();
  nodes_.push_back({std::move(work), after, {}});
  for (auto const before : after) {
    nodes_[before].followers.push_back(node);
  }
  return node;
}

void HostProgram::run(std::uint64_t seed) {
  std::vector<std::size_t> missing(nodes_.size());
  Nodes ready;
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    missing[node] = nodes_[node].after.size();
    if (missing[node] == 0) {
      ready.push_back(node);
    }
  }
  for (std::uint64_t random = mixed(seed); !ready.empty(); random = mixed(random)) {
    std::swap(ready[random % ready.size()], ready.back());
    auto const node = ready.back();
    ready.pop_back();
    nodes_[node].work();
    for (auto const follower : nodes_[node].followers) {
      if (--missing[follower] == 0) {
        ready.push_back(follower);
      }
    }
  }
}

bool HostProgram::ends_with(Nodes const& last) const {
  std::vector<bool> reached(nodes_.size(), false);
  Nodes open = last;
  while (!open.empty()) {
    auto const node = open.back();
    open.pop_back();
    if (!reached[node]) {
      reached[node] = true;
      open.insert(open.end(), nodes_[node].after.begin(), nodes_[node].after.end());
    }
  }
  return std::all_of(reached.begin(), reached.end(), [](bool is) { return is; });
}

std::size_t HostCapture::add(Closure work, HostProgram::Nodes const& after) {
  std::lock_guard const lock(mutex_);
  // Discards work that is enqueued on a captured stream after its capture has ended.
  return program_ != nullptr ? program_->add(std::move(work), after) : 0;
}

void HostCapture::refuse(std::string_view call, std::string_view why) {
  spoil(why);
  detail::throw_capture_error(call, why);
}

bool HostCapture::is_sound() {
  std::lock_guard const lock(mutex_);
  return !spoilt_ && !is_over();
}

void HostCapture::spoil(std::string_view why) noexcept {
  std::lock_guard const lock(mutex_);
  if (!std::exchange(spoilt_, true)) {
    try {
      why_ = why;
    } catch (...) {  // NOLINT(bugprone-empty-catch): spoilt without a reason
    }
  }
}

std::unique_ptr<HostProgram> HostCapture::end(HostProgram::Nodes const& last) {
  std::lock_guard const lock(mutex_);
  over_.store(true, std::memory_order_release);
  auto program = std::move(program_);
  if (spoilt_) {
    throw RuntimeError("host runtime", detail::kCaptureInvalidated, why_, "end_capture");
  }
  if (program == nullptr || !program->ends_with(last)) {
    detail::throw_capture_error("end_capture", "the origin does not follow all that was captured");
  }
  return program;
}

void HostCapture::abandon() noexcept {
  std::unique_ptr<HostProgram> program;  // destroyed after the lock is released
  std::lock_guard const lock(mutex_);
  over_.store(true, std::memory_order_release);
  program.swap(program_);
}

void detail::throw_capture_error(std::string_view call, std::string_view why) {
  throw RuntimeError(
      "host runtime", detail::kCaptureUnsupported, std::string(why), std::string(call));
}

}  // namespace msstream
