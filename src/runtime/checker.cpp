// SPDX-License-Identifier: Apache-2.0
#include "access_history.hpp"
#include "finding_log.hpp"
#include "happens_before.hpp"
#include "live_checkers.hpp"
#include "memory_ledger.hpp"

#include <msstream/base/text.hpp>
#include <msstream/runtime/checker.hpp>
#include <msstream/runtime/sync_watch.hpp>
#include <msstream/trace/name_scope.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

namespace msstream {

using detail::Interval;
using detail::MemoryLedger;
using detail::PastAccess;
using detail::Place;

namespace {

CheckedAccess describe(Operation const& operation, AccessMode mode, Interval range) {
  return {operation.name,
          operation.lane,
          mode,
          range.begin,
          range.end - range.begin,
          operation.issued_at,
          operation.scope_opened_at};
}

Interval interval_of(MemoryUse const& use) {
  return Interval::of(use.begin, use.bytes);
}

std::string_view past_verb(AccessMode mode) {
  return mode == AccessMode::read ? "may still read" : "may still write";
}

Operation unnamed_operation(std::string_view name, Place place, std::vector<MemoryUse> uses) {
  return {NameScope::qualify(name),
          text("stream ", place.index),
          std::source_location(),
          std::source_location(),
          std::move(uses)};
}

}  // namespace

struct Checker::State {
  explicit State(CheckerOptions options) : log(std::move(options)) {}

  /// The earlier accesses that a use on the stream does not follow.
  void find_races(Operation const& operation,
                  std::vector<MemoryUse> const& uses,
                  detail::HappensBefore::Stream const& stream,
                  std::vector<CheckReport>& found) {
    for (auto const& use : uses) {
      history.for_each_conflict(
          interval_of(use), use.mode, [&](PastAccess const& past, Interval where) {
            if (!detail::HappensBefore::precedes(past.place, stream)) {
              found.push_back(race(operation, use, past, where));
            }
          });
    }
  }
  static CheckReport race(Operation const& operation,
                          MemoryUse const& use,
                          PastAccess const& past,
                          Interval where) {
    auto const range = interval_of(use);
    Interval const both{std::max(range.begin, where.begin), std::min(range.end, where.end)};
    bool const reused = past.owner != use.owner && past.owner != 0 && use.owner != 0;
    return {CheckKind::race,
            text("'",
                 operation.name,
                 use.mode == AccessMode::read ? "' reads" : "' writes",
                 " memory that '",
                 past.operation->name,
                 "' ",
                 past_verb(past.mode),
                 reused ? "; the memory was given back and out again in between" : ""),
            describe(*past.operation, past.mode, both),
            describe(operation, use.mode, both),
            text(operation.lane,
                 " must wait for '",
                 past.operation->name,
                 "' on ",
                 past.operation->lane,
                 " before '",
                 operation.name,
                 "'")};
  }
  void note_uses(OperationHandle const& operation,
                 std::vector<MemoryUse> const& uses,
                 Place place) {
    for (auto const& use : uses) {
      history.note(interval_of(use), {place, operation, use.mode, use.owner});
    }
  }
  /// The accesses to the range that the host does not know to be over.
  template <class Visit>
  void for_each_in_flight(Interval range, AccessMode mode, Visit&& visit) {
    history.for_each_conflict(range, mode, [&](PastAccess const& past, Interval where) {
      if (!order.host_knows(past.place)) {
        visit(past, where);
      }
    });
  }
  void find_early_reuse(Interval range, char const* what, std::vector<CheckReport>& found) {
    for_each_in_flight(range, AccessMode::write, [&](PastAccess const& past, Interval where) {
      found.push_back({CheckKind::early_reuse,
                       text(what, " that '", past.operation->name, "' ", past_verb(past.mode)),
                       describe(*past.operation, past.mode, where),
                       std::nullopt,
                       text("the host must wait for '", past.operation->name, "' before that")});
    });
  }

  std::mutex mutable mutex;  ///< guards all but the log
  detail::HappensBefore order;
  detail::AccessHistory history;
  MemoryLedger memory;
  detail::FindingLog log;
};

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
  state_->log.publish_quietly(std::move(found));
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
  state_->order.event(event) = {};
}

void Checker::event_destroyed(Handle event) noexcept {
  std::lock_guard const guard(state_->mutex);
  state_->order.event(event) = {detail::HappensBefore::Event::State::destroyed, {}};
}

Checker::Moment Checker::tail_of(Handle stream) {
  std::lock_guard const guard(state_->mutex);
  return detail::HappensBefore::tail_of(state_->order.stream(stream));
}

Checker::Moment Checker::moment_of(Handle event) {
  std::lock_guard const guard(state_->mutex);
  return state_->order.event(event).moment;
}

void Checker::recorded(Handle event, Moment moment) {
  std::lock_guard const guard(state_->mutex);
  state_->order.event(event) = {detail::HappensBefore::Event::State::recorded, std::move(moment)};
}

bool Checker::is_waitable(Handle event, Handle stream) {
  using EventState = detail::HappensBefore::Event::State;
  std::vector<CheckReport> found;
  EventState state{};
  {
    std::lock_guard const guard(state_->mutex);
    state = state_->order.event(event).state;
    auto const waiter = text("stream ", state_->order.stream(stream).index);
    if (state == EventState::created) {
      found.push_back({CheckKind::unrecorded_wait,
                       waiter + " waits for an event that was never recorded, which orders nothing",
                       std::nullopt,
                       std::nullopt,
                       "the event must be recorded before the wait is issued"});
    } else if (state == EventState::destroyed) {
      found.push_back({CheckKind::dead_event,
                       waiter + " waits for an event that was destroyed",
                       std::nullopt,
                       std::nullopt,
                       "the event must live until the wait is issued"});
    }
  }
  state_->log.publish(std::move(found));
  return state != EventState::destroyed;
}

void Checker::waited(Handle stream, Handle event) {
  std::lock_guard const guard(state_->mutex);
  state_->order.stream(stream).clock.merge(state_->order.event(event).moment.clock);
}

void Checker::host_saw(Moment const& moment) {
  std::lock_guard const guard(state_->mutex);
  state_->order.host_saw(moment);
}

void Checker::declare(Operation& operation) {
  std::vector<CheckReport> found;
  {
    std::lock_guard const guard(state_->mutex);
    for (auto& use : operation.uses) {
      auto const range = interval_of(use);
      auto const* const part = state_->memory.part_at(range);
      use.owner = part != nullptr ? part->owner : 0;
      if (part != nullptr && part->holder == MemoryLedger::Holder::pool) {
        found.push_back({CheckKind::use_after_free,
                         text("'", operation.name, "' names memory that was given back"),
                         std::nullopt,
                         describe(operation, use.mode, range),
                         "the memory must be held until the operation is issued"});
      } else if (use.mode == AccessMode::read && state_->memory.has_unwritten(range)) {
        found.push_back(
            {CheckKind::unwritten_read,
             text("'", operation.name, "' reads memory that nothing has written"),
             std::nullopt,
             describe(operation, use.mode, range),
             text("an operation that writes it, issued before '", operation.name, "'")});
        state_->memory.written(range);  // once is enough
      }
    }
    for (auto const& use : operation.uses) {
      if (use.mode == AccessMode::write) {
        state_->memory.written(interval_of(use));
      }
    }
  }
  state_->log.publish(std::move(found));
}

void Checker::begin(OperationHandle const& operation, Handle handle) {
  std::vector<CheckReport> found;
  bool const throws = state_->log.throws();
  {
    std::lock_guard const guard(state_->mutex);
    auto& stream = state_->order.stream(handle);
    auto const place = state_->order.next_place(stream);
    state_->find_races(*operation, operation->uses, stream, found);
    if (found.empty() || !throws) {
      state_->note_uses(operation, operation->uses, place);
      stream.active = operation;
    }
  }
  state_->log.publish(std::move(found));
}

void Checker::end(Handle handle) noexcept {
  std::lock_guard const guard(state_->mutex);
  auto& stream = state_->order.stream(handle);
  stream.active = nullptr;
  ++stream.finished_launching;
}

void Checker::begin_foreign_work(OperationHandle const& operation, Handle handle) {
  std::vector<CheckReport> found;
  {
    std::lock_guard const guard(state_->mutex);
    auto& stream = state_->order.stream(handle);
    static_cast<void>(state_->order.next_place(stream));
    state_->find_races(*operation, operation->uses, stream, found);
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
  ++stream.finished_launching;
}

void Checker::begin_transfer(std::string_view name, std::vector<MemoryUse> uses, Handle handle) {
  std::vector<CheckReport> found;
  {
    std::lock_guard const guard(state_->mutex);
    auto& stream = state_->order.stream(handle);
    auto const place = state_->order.next_place(stream);
    auto const operation =
        stream.active != nullptr
            ? stream.active
            : std::make_shared<Operation const>(unnamed_operation(name, place, {}));
    for (auto& use : uses) {
      auto const range = interval_of(use);
      auto const* const part = state_->memory.part_at(range);
      use.owner = part != nullptr ? part->owner : 0;
      if (use.mode == AccessMode::write) {
        state_->memory.written(range);
      }
    }
    state_->find_races(*operation, uses, stream, found);
    if (found.empty() || !state_->log.throws()) {
      state_->note_uses(operation, uses, place);
    }
  }
  state_->log.publish(std::move(found));
}

void Checker::end_transfer(Handle handle) noexcept {
  std::lock_guard const guard(state_->mutex);
  auto& stream = state_->order.stream(handle);
  if (stream.active == nullptr) {
    ++stream.finished_launching;
  }
}

void Checker::pageable_copy(std::string_view name, void const* host_memory, Handle handle) {
  std::vector<CheckReport> found;
  {
    std::lock_guard const guard(state_->mutex);
    auto& stream = state_->order.stream(handle);
    auto const operation = stream.active != nullptr ? stream.active->name : std::string(name);
    found.push_back(
        {CheckKind::pageable_copy,
         text("'", operation, "' copies host memory that is not pinned: the host blocks"),
         std::nullopt,
         stream.active != nullptr
             ? std::optional(
                   describe(*stream.active, AccessMode::write, Interval::of(host_memory, 0)))
             : std::nullopt,
         "a PinnedArray in its place"});
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
  state_->log.publish_quietly(std::move(found));
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
  if (!ConcurrentRegion::entered() || OwnCall::active()) {
    return;
  }
  state_->log.publish_quietly(
      {{CheckKind::implicit_sync,
        text(call, NameScope::current().empty() ? "" : "; called in ", NameScope::current()),
        std::nullopt,
        std::nullopt,
        "call it outside of stream scopes, or use its asynchronous form on the scope's stream"}});
}

}  // namespace msstream
