// SPDX-License-Identifier: Apache-2.0
#include "checker_state.hpp"
#include "live_checkers.hpp"

#include <msstream/base/text.hpp>
#include <msstream/runtime/checker.hpp>
#include <msstream/runtime/sync_watch.hpp>
#include <msstream/trace/name_scope.hpp>

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

/// As its operations were told to be on, if there were any.
std::string name_of(Checker::Handle handle, detail::HappensBefore::Stream const& stream) {
  return stream.lane.empty() ? lane_of(handle) : stream.lane;
}
std::string inside(std::source_location const& region) {
  return region.line() == 0 ? ""
                            : text("; in what was opened or issued at ",
                                   std::string_view(region.file_name()),
                                   ":",
                                   region.line());
}
/// The name scope of the thread, as the end of a sentence.
std::string called_in() {
  return NameScope::current().empty() ? "" : text("; called in ", NameScope::current());
}

Operation unnamed_operation(std::string_view name, std::string lane) {
  return {NameScope::qualify(name),
          std::move(lane),
          std::source_location(),
          std::source_location(),
          {}};
}

}  // namespace

Checker::Checker(CheckerOptions options) : state_(std::make_unique<State>(std::move(options))) {
  detail::LiveCheckers::add(*this);
}

Checker::~Checker() {
  detail::LiveCheckers::remove(*this);
  report_leaks();
  write_report();
}

void Checker::report_leaks() noexcept {
  std::vector<CheckReport> found;
  auto const leak = [&](auto const&... pieces) {
    found.push_back({CheckKind::leak, text(pieces...), std::nullopt, std::nullopt, ""});
  };
  {
    std::lock_guard const guard(state_->mutex);
    if (auto const streams = state_->order.live_streams(); streams != 0) {
      leak(streams, " streams were never destroyed");
    }
    if (auto const events = state_->order.live_events(); events != 0) {
      leak(events, " events were never destroyed");
    }
    state_->memory.for_each([&](Interval range, MemoryLedger::Part const& part) {
      if (part.holder != MemoryLedger::Holder::pool) {
        leak(range.end - range.begin,
             part.space == Space::device ? " bytes of device memory" : " bytes of pinned memory",
             part.holder == MemoryLedger::Holder::owner ? " are still in use" : " were never freed",
             part.taken_in.empty() ? "" : ", taken in ",
             part.taken_in);
      }
    });
  }
  state_->log.publish_quietly(found);
}

std::vector<CheckReport> Checker::reports() const {
  return state_->log.reports();
}
std::uint64_t Checker::count() const {
  return state_->log.count();
}
std::uint64_t Checker::count(CheckKind kind) const {
  return state_->log.count(kind);
}
void Checker::clear() {
  state_->log.clear();
}
std::uint64_t Checker::quiet_findings() noexcept {
  return detail::FindingLog::quiet_findings();
}
void Checker::write_report() const noexcept {
  state_->log.write_file();
}

void Checker::stream_created(Handle stream) {
  std::lock_guard const guard(state_->mutex);
  state_->order.create_stream(stream);
}

void Checker::stream_destroyed(Handle stream) noexcept {
  std::lock_guard const guard(state_->mutex);
  state_->order.destroy_stream(stream);
}

void Checker::event_created(Handle event) {
  std::lock_guard const guard(state_->mutex);
  state_->order.create_event(event);
}

void Checker::event_destroyed(Handle event) noexcept {
  std::lock_guard const guard(state_->mutex);
  state_->order.destroy_event(event);
}

Checker::Moment Checker::tail_of(Handle stream) {
  std::lock_guard const guard(state_->mutex);
  return detail::HappensBefore::tail_of(state_->order.stream(stream));
}

void Checker::recorded(Handle event, Moment moment) {
  std::lock_guard const guard(state_->mutex);
  state_->order.record(event, std::move(moment));
}

std::optional<Checker::Moment> Checker::moment_of(Handle event, std::string_view call) {
  {
    std::lock_guard const guard(state_->mutex);
    auto const& asked = state_->order.event(event);
    if (asked.state != detail::HappensBefore::Event::State::destroyed) {
      return asked.moment;
    }
  }
  state_->log.publish({{CheckKind::dead_event,
                        text(call, " of an event that was destroyed", called_in()),
                        std::nullopt,
                        std::nullopt,
                        text("the event must live until the ", call)}});
  return std::nullopt;
}

std::optional<Checker::Moment> Checker::waitable_moment_of(Handle event, Handle stream) {
  using EventState = detail::HappensBefore::Event::State;
  std::vector<CheckReport> found;
  std::optional<Moment> moment;
  {
    std::lock_guard const guard(state_->mutex);
    auto const& waited_for = state_->order.event(event);
    auto const waiter = name_of(stream, state_->order.stream(stream));
    if (waited_for.state != EventState::destroyed) {
      moment = waited_for.moment;
    }
    if (waited_for.state == EventState::created) {
      found.push_back({CheckKind::unrecorded_wait,
                       text(waiter,
                            " waits for an event that was never recorded, which orders nothing",
                            called_in()),
                       std::nullopt,
                       std::nullopt,
                       "the event must be recorded before the wait is issued"});
    } else if (waited_for.state == EventState::destroyed) {
      found.push_back({CheckKind::dead_event,
                       text(waiter, " waits for an event that was destroyed", called_in()),
                       std::nullopt,
                       std::nullopt,
                       "the event must live until the wait is issued"});
    }
  }
  state_->log.publish(std::move(found));
  return moment;
}

void Checker::waited(Handle stream, Moment const& moment) {
  std::lock_guard const guard(state_->mutex);
  state_->order.stream(stream).clock.merge(moment.clock);
}

void Checker::host_saw(Moment const& moment) {
  std::lock_guard const guard(state_->mutex);
  state_->order.host_saw(moment);
}

void Checker::declare(Operation& operation) {
  std::vector<CheckReport> found;
  {
    std::lock_guard const guard(state_->mutex);
    state_->find_misuse(operation, operation.uses, found);
    if (!state_->stops(found)) {
      state_->note_issued(operation);
    }
  }
  state_->log.publish(std::move(found));
}

void Checker::begin(OperationHandle const& operation, Handle handle) {
  std::vector<CheckReport> found;
  {
    std::lock_guard const guard(state_->mutex);
    auto& stream = state_->order.stream(handle);
    auto const place = state_->order.next_place(stream);
    state_->find_races(*operation, operation->uses, stream, found);
    state_->find_reads_of_what_was_given_up(*operation, found);
    state_->find_writes_of_held_memory(*operation, stream.index, found);
    if (!state_->stops(found)) {
      state_->note_uses(operation, operation->uses, place);
      stream.active = operation;
      stream.lane = operation->lane;
    }
  }
  state_->log.publish(std::move(found));
}

void Checker::end(Handle handle, Outcome outcome) noexcept {
  std::lock_guard const guard(state_->mutex);
  auto& stream = state_->order.stream(handle);
  if (stream.active != nullptr) {
    state_->note_outcome(*stream.active, outcome);
  }
  stream.active = nullptr;
  ++stream.finished_launching;
}

void Checker::give_up(Operation const& operation) noexcept {
  std::lock_guard const guard(state_->mutex);
  state_->note_outcome(operation, Outcome::failed);
}

void Checker::begin_foreign_work(OperationHandle const& operation, Handle handle) {
  std::vector<CheckReport> found;
  {
    std::lock_guard const guard(state_->mutex);
    auto& stream = state_->order.stream(handle);
    static_cast<void>(state_->order.next_place(stream));
    state_->find_races(*operation, operation->uses, stream, found);
    if (!state_->stops(found)) {
      state_->holds.push_back({operation, stream.index});
    } else {  // the holder's other streams will not end it
      std::erase_if(state_->holds, [&](auto const& hold) { return hold.operation == operation; });
      state_->note_outcome(*operation, Outcome::failed);
    }
  }
  state_->log.publish(std::move(found));
}

void Checker::end_foreign_work(OperationHandle const& operation, Handle handle) {
  std::lock_guard const guard(state_->mutex);
  auto& stream = state_->order.stream(handle);
  auto const place = state_->order.next_place(stream);
  for (auto const& use : operation->uses) {
    state_->history.note_beside(interval_of(use), {place, operation, use.mode, use.owner});
  }
  std::erase_if(state_->holds, [&](auto const& hold) {
    return hold.operation == operation && hold.stream_index == stream.index;
  });
  state_->note_outcome(*operation, Outcome::launched);
  ++stream.finished_launching;
}

OperationHandle Checker::begin_transfer(std::string_view name,
                                        std::vector<MemoryUse> uses,
                                        Handle handle) {
  std::vector<CheckReport> found;
  OperationHandle transfer;
  {
    std::lock_guard const guard(state_->mutex);
    auto& stream = state_->order.stream(handle);
    auto const place = state_->order.next_place(stream);
    if (stream.active != nullptr) {
      state_->adopt(*stream.active, uses, found);
      state_->find_races(*stream.active, uses, stream, found);
    } else {
      auto own = unnamed_operation(name, name_of(handle, stream));
      own.uses = uses;
      state_->find_misuse(own, own.uses, found);
      state_->find_reads_of_what_was_given_up(own, found);
      state_->find_races(own, own.uses, stream, found);
      transfer = std::make_shared<Operation const>(std::move(own));
    }
    if (!state_->stops(found)) {
      if (transfer != nullptr) {
        state_->note_issued(*transfer);
        state_->note_uses(transfer, transfer->uses, place);
      } else {
        state_->note_uses(stream.active, uses, place);
      }
    }
  }
  state_->log.publish(std::move(found));
  return transfer;
}

void Checker::end_transfer(OperationHandle const& transfer,
                           Handle handle,
                           Outcome outcome) noexcept {
  if (transfer != nullptr) {
    std::lock_guard const guard(state_->mutex);
    state_->note_outcome(*transfer, outcome);
    ++state_->order.stream(handle).finished_launching;
  }
}

void Checker::pageable_copy(std::string_view name, void const* host_memory, Handle handle) {
  std::vector<CheckReport> found;
  {
    std::lock_guard const guard(state_->mutex);
    auto& stream = state_->order.stream(handle);
    auto const operation = stream.active != nullptr ? stream.active->name : std::string(name);
    found.push_back({CheckKind::pageable_copy,
                     text("'",
                          operation,
                          "' copies host memory that is not pinned, on ",
                          name_of(handle, stream),
                          ": the host blocks",
                          called_in()),
                     std::nullopt,
                     stream.active != nullptr
                         ? std::optional(describe(
                               *stream.active, AccessMode::write, Interval::of(host_memory, 0)))
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
    std::lock_guard const guard(state_->mutex);
    auto& stream = state_->order.stream(handle);
    auto const operation = stream.active != nullptr ? stream.active->name : std::string(name);
    found.push_back(
        {CheckKind::copy_overlap,
         text("'",
              operation,
              "' copies ",
              bytes,
              " bytes by ",
              distance,
              target < source ? " bytes down" : " bytes up",
              ", onto some that it still reads, on ",
              name_of(handle, stream),
              called_in()),
         std::nullopt,
         stream.active != nullptr
             ? std::optional(describe(*stream.active, AccessMode::write, Interval::of(to, bytes)))
             : std::nullopt,
         "a copy by way of other memory, or parts of at most that distance in order"});
  }
  state_->log.publish(std::move(found));
}

bool Checker::is_pinned(void const* memory, std::size_t bytes) const {
  std::lock_guard const guard(state_->mutex);
  auto const* const part =
      state_->memory.part_at(Interval::of(memory, std::max(bytes, std::size_t{1})));
  return part != nullptr && part->space == Space::pinned;
}

void Checker::allocated(void const* memory, std::size_t bytes, Space space) {
  std::lock_guard const guard(state_->mutex);
  state_->memory.allocated(Interval::of(memory, bytes), space);
}

void Checker::freed(void const* memory, std::size_t bytes) noexcept {
  auto const range = Interval::of(memory, bytes);
  std::vector<CheckReport> found;
  {
    std::lock_guard const guard(state_->mutex);
    state_->find_early_reuse(range, "memory is freed", found);
    state_->history.forget(range);
    state_->memory.freed(range);
  }
  state_->log.publish_quietly(found);
}

void Checker::moved(void const* to, void const* from, std::size_t bytes) {
  auto const range = Interval::of(to, bytes);
  std::lock_guard const guard(state_->mutex);
  state_->memory.allocated(range, Space::device);
  state_->history.hand_on(Interval::of(from, bytes), range.begin);
}

void Checker::pooled(void const* memory, std::size_t bytes) {
  std::lock_guard const guard(state_->mutex);
  state_->memory.pooled(Interval::of(memory, bytes));
}

void Checker::taken(void const* memory, std::size_t bytes) {
  auto const range = Interval::of(memory, bytes);
  std::vector<CheckReport> found;
  {
    std::lock_guard const guard(state_->mutex);
    // The first use of device memory is compared with the last one; pinned memory is used by the
    // host at once.
    if (state_->memory.taken(range, NameScope::current()) == Space::pinned) {
      state_->find_early_reuse(range, "pinned memory is given out", found);
    }
  }
  state_->log.publish(std::move(found));
}

void Checker::returned(void const* memory, std::size_t bytes) noexcept {
  std::lock_guard const guard(state_->mutex);
  state_->memory.returned(Interval::of(memory, bytes));
}

void Checker::host_uses(MemoryUse const& use) {
  std::vector<CheckReport> found;
  {
    std::lock_guard const guard(state_->mutex);
    state_->for_each_in_flight(
        interval_of(use), use.mode, [&](PastAccess const& past, Interval where) {
          found.push_back({CheckKind::host_race,
                           text("the host ",
                                use.mode == AccessMode::read ? "reads" : "writes",
                                " pinned memory that '",
                                past.operation->name,
                                "' ",
                                past_verb(past.mode)),
                           describe(*past.operation, past.mode, where),
                           std::nullopt,
                           text("the host must wait for '",
                                past.operation->name,
                                "', as by PinnedArray::wait()")});
        });
  }
  state_->log.publish(std::move(found));
}

void Checker::implicit_sync(std::string_view call) noexcept {
  state_->log.publish_quietly(
      {{CheckKind::implicit_sync,
        text(call, inside(ConcurrentRegion::opened_at()), called_in()),
        std::nullopt,
        std::nullopt,
        "call it outside of stream scopes, or use its asynchronous form on the scope's stream"}});
}

}  // namespace msstream
