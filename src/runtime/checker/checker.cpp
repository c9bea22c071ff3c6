// SPDX-License-Identifier: Apache-2.0
#include "checker_state.hpp"
#include "live_checkers.hpp"

#include <msstream/runtime/checker.hpp>
#include <msstream/runtime/detail/sync_watch.hpp>
#include <msstream/trace/name_scope.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace msstream {

using detail::describe;
using detail::Interval;
using detail::interval_of;
using detail::MemoryLedger;
using detail::past_verb;
using detail::PastAccess;

namespace {

std::string inside(std::source_location const& region) {
  return region.line() == 0
             ? ""
             : fmt::format(
                   "; in what was opened or issued at {}:{}", region.file_name(), region.line());
}
/// Returns a phrase with the calling thread's name scope, to be appended to a sentence. Returns an
/// empty string outside all name scopes.
std::string called_in() {
  return NameScope::current().empty() ? "" : fmt::format("; called in {}", NameScope::current());
}

}  // namespace

Checker::Checker(CheckerOptions options) : state_(std::make_unique<State>(std::move(options))) {
  detail::LiveCheckers::add(*this);
}

Checker::~Checker() {
  detail::LiveCheckers::remove(*this);
  if (!state_->home.is_left()) {
    report_leaks();
    write_report();
  }
}

void Checker::report_leaks() noexcept {
  std::vector<CheckReport> found;
  auto const leak = [&](std::string message) {
    found.push_back({CheckKind::leak, std::move(message), std::nullopt, std::nullopt, ""});
  };
  {
    auto const guard = state_->lock_if_here();
    if (!guard.owns_lock()) {
      return;
    }
    if (auto const streams = state_->order.live_streams(); streams != 0) {
      leak(fmt::format("{} streams were never destroyed", streams));
    }
    if (auto const events = state_->order.live_events(); events != 0) {
      leak(fmt::format("{} events were never destroyed", events));
    }
    state_->memory.for_each([&](Interval range, MemoryLedger::Part const& part) {
      if (part.holder != MemoryLedger::Holder::pool) {
        leak(fmt::format(
            "{} bytes of {} memory {}{}{}",
            range.end - range.begin,
            part.space == Space::device ? "device" : "pinned",
            part.holder == MemoryLedger::Holder::owner ? "are still in use" : "were never freed",
            part.taken_in.empty() ? "" : ", taken in ",
            part.taken_in));
      }
    });
  }
  state_->log.publish_quietly(found);
}

std::vector<CheckReport> Checker::reports() const {
  return state_->log_here().reports();
}
std::uint64_t Checker::count() const {
  return state_->log_here().count();
}
std::uint64_t Checker::count(CheckKind kind) const {
  return state_->log_here().count(kind);
}
void Checker::clear() {
  state_->log_here().clear();
}
std::uint64_t Checker::quiet_findings() noexcept {
  return detail::FindingLog::quiet_findings();
}
void Checker::write_report() const noexcept {
  state_->log.write_file();
}

void Checker::pageable_copy(std::string_view name, void const* host_memory, Handle handle) {
  std::vector<CheckReport> found;
  {
    auto const guard = state_->lock();
    auto const& stream = state_->order.stream(handle);
    auto const operation =
        stream.active != nullptr ? stream.active->operation->name : std::string(name);
    found.push_back(
        {CheckKind::pageable_copy,
         fmt::format("'{}' copies host memory that is not pinned, on {}: the host blocks{}",
                     operation,
                     State::name_of(handle, stream),
                     called_in()),
         std::nullopt,
         stream.active != nullptr
             ? std::optional(describe(
                   *stream.active, nullptr, AccessMode::write, Interval::of(host_memory, 0)))
             : std::nullopt,
         "a PinnedArray in its place"});
  }
  state_->log.publish(std::move(found));
}

void Checker::copies(
    std::string_view name, void const* to, void const* from, std::size_t bytes, Handle handle) {
  auto const target = reinterpret_cast<std::uintptr_t>(to);
  auto const source = reinterpret_cast<std::uintptr_t>(from);
  auto const distance = target < source ? source - target : target - source;
  if (distance >= bytes) {
    return;
  }
  std::vector<CheckReport> found;
  {
    auto const guard = state_->lock();
    auto const& stream = state_->order.stream(handle);
    auto const operation =
        stream.active != nullptr ? stream.active->operation->name : std::string(name);
    found.push_back(
        {CheckKind::copy_overlap,
         fmt::format("'{}' copies {} bytes by {}{}, onto some that it still reads, on {}{}",
                     operation,
                     bytes,
                     distance,
                     target < source ? " bytes down" : " bytes up",
                     State::name_of(handle, stream),
                     called_in()),
         std::nullopt,
         stream.active != nullptr
             ? std::optional(
                   describe(*stream.active, nullptr, AccessMode::write, Interval::of(to, bytes)))
             : std::nullopt,
         "a copy by way of other memory, or parts of at most that distance in order"});
  }
  state_->log.publish(std::move(found));
}

bool Checker::is_pinned(void const* memory, std::size_t bytes) const {
  auto const guard = state_->lock();
  auto const* const part =
      state_->memory.part_at(Interval::of(memory, std::max(bytes, std::size_t{1})));
  return part != nullptr && part->space == Space::pinned;
}

void Checker::allocated(void const* memory, std::size_t bytes, Space space) {
  auto const guard = state_->lock();
  state_->memory.allocated(Interval::of(memory, bytes), space);
}

void Checker::freed(void const* memory, std::size_t bytes) noexcept {
  auto const range = Interval::of(memory, bytes);
  std::vector<CheckReport> found;
  {
    auto const guard = state_->lock_if_here();
    if (!guard.owns_lock()) {
      return;
    }
    auto const* const part = state_->memory.part_at(range);
    auto const by = part != nullptr && part->holder == MemoryLedger::Holder::runtime_user
                        ? State::FreedBy::program
                        : State::FreedBy::allocator;
    state_->find_early_reuse(range, by, "memory is freed", found);
    state_->history.forget(range);
    state_->memory.freed(range);
  }
  state_->log.publish_quietly(found);
}

void Checker::moved(void const* to, void const* from, std::size_t bytes) {
  auto const range = Interval::of(to, bytes);
  auto const guard = state_->lock();
  state_->memory.allocated(range, Space::device);
  state_->history.hand_on(Interval::of(from, bytes), range.begin);
}

void Checker::pooled(void const* memory, std::size_t bytes) {
  auto const guard = state_->lock();
  state_->memory.pooled(Interval::of(memory, bytes));
}

void Checker::taken(void const* memory, std::size_t bytes) {
  auto const range = Interval::of(memory, bytes);
  std::vector<CheckReport> found;
  {
    auto const guard = state_->lock();
    // Checks newly allocated pinned memory at once, because the host may use it right away. Device
    // memory is checked at its first use instead, against the last use by its previous owner.
    if (state_->memory.taken(range, NameScope::current()) == Space::pinned) {
      state_->find_early_reuse(
          range, State::FreedBy::allocator, "pinned memory is given out", found);
    }
  }
  state_->log.publish(std::move(found));
}

void Checker::returned(void const* memory, std::size_t bytes) noexcept {
  auto const guard = state_->lock_if_here();
  if (!guard.owns_lock()) {
    return;
  }
  state_->memory.returned(Interval::of(memory, bytes));
}

void Checker::host_uses(MemoryUse const& use) {
  std::vector<CheckReport> found;
  {
    auto const guard = state_->lock();
    auto const* const part = state_->memory.part_at(interval_of(use));
    auto const owner = part != nullptr ? part->owner : 0;
    state_->for_each_in_flight(
        interval_of(use),
        use.mode,
        [&](PastAccess const& past) {
          bool const is_reused = past.owner != owner && past.owner != 0 && owner != 0;
          return state_->order.host_waited_for(past.by->place) ||
                 (is_reused && state_->order.host_knows(past.by->place));
        },
        [&](PastAccess const& past, Interval where) {
          auto const name = detail::name_of(past);
          found.push_back(
              {CheckKind::host_race,
               fmt::format("the host {} pinned memory that '{}' {}",
                           detail::verb_of(use.mode),
                           name,
                           past_verb(past.mode)),
               describe(past, where),
               std::nullopt,
               fmt::format("the host must wait for '{}', as by PinnedArray::wait()", name)});
        });
  }
  state_->log.publish(std::move(found));
}

void Checker::implicit_sync(std::string_view call) noexcept {
  state_->log.publish_quietly(
      {{CheckKind::implicit_sync,
        fmt::format("{}{}{}", call, inside(detail::ConcurrentRegion::opened_at()), called_in()),
        std::nullopt,
        std::nullopt,
        "call it outside of stream scopes, or use its asynchronous form on the scope's stream"}});
}

}  // namespace msstream
