// SPDX-License-Identifier: Apache-2.0
// The checker's callbacks for the order of work: streams, events, operations, captures, and copies
// and fills that are not part of an operation.
#include "checker_state.hpp"

#include <msstream/runtime/checker.hpp>
#include <msstream/trace/name_scope.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

namespace msstream {

namespace {

using EventState = detail::HappensBefore::Event::State;

std::string asked_in() {
  return NameScope::current().empty() ? "" : fmt::format("; called in {}", NameScope::current());
}

Operation operation_past_issue(std::string_view name, std::vector<MemoryUse> uses) {
  return {NameScope::qualify(name), {}, {}, {}, std::move(uses)};
}

}  // namespace

void Checker::stream_created(Handle stream) {
  auto const guard = state_->lock();
  state_->order.create_stream(stream);
}

void Checker::stream_destroyed(Handle stream) noexcept {
  auto const guard = state_->lock_if_here();
  if (!guard.owns_lock()) {
    return;
  }
  if (!state_->holds.empty()) {
    // A TensorHolder can outlive a stream only if the stream belonged to an abandoned capture,
    // whose work never runs.
    auto const index = state_->order.stream(stream).index;
    std::erase_if(state_->holds, [&](auto const& hold) { return hold.stream_index == index; });
  }
  state_->order.destroy_stream(stream);
}

void Checker::stream_named(Handle stream, std::string_view name) {
  auto const guard = state_->lock();
  state_->order.stream(stream).lane = name;
}

void Checker::event_created(Handle event) {
  auto const guard = state_->lock();
  state_->order.create_event(event);
}

void Checker::event_destroyed(Handle event) noexcept {
  auto const guard = state_->lock_if_here();
  if (!guard.owns_lock()) {
    return;
  }
  state_->order.destroy_event(event);
}

Checker::Moment Checker::tail_of(Handle stream) {
  auto const guard = state_->lock();
  return detail::HappensBefore::tail_of(state_->order.stream(stream));
}

void Checker::recorded(Handle event, Moment moment) {
  auto const guard = state_->lock();
  state_->order.record(event, std::move(moment));
}

std::optional<Checker::Moment> Checker::moment_of(Handle event, std::string_view call) {
  {
    auto const guard = state_->lock();
    auto const& asked = state_->order.event(event);
    if (asked.state != EventState::destroyed) {
      return asked.moment;
    }
  }
  state_->log.publish({{CheckKind::dead_event,
                        fmt::format("{} of an event that was destroyed{}", call, asked_in()),
                        std::nullopt,
                        std::nullopt,
                        fmt::format("the event must live until the {}", call)}});
  return std::nullopt;
}

std::optional<Checker::Moment> Checker::waitable_moment_of(Handle event, Handle stream) {
  std::vector<CheckReport> found;
  std::optional<Moment> moment;
  {
    auto const guard = state_->lock();
    auto const& waited_for = state_->order.event(event);
    auto const waiter = State::name_of(stream, state_->order.stream(stream));
    if (waited_for.state != EventState::destroyed) {
      moment = waited_for.moment;
    }
    if (waited_for.state == EventState::created) {
      found.push_back(
          {CheckKind::unrecorded_wait,
           fmt::format("{} waits for an event that was never recorded, which orders nothing{}",
                       waiter,
                       asked_in()),
           std::nullopt,
           std::nullopt,
           "the event must be recorded before the wait is issued"});
    } else if (waited_for.state == EventState::destroyed) {
      found.push_back(
          {CheckKind::dead_event,
           fmt::format("{} waits for an event that was destroyed{}", waiter, asked_in()),
           std::nullopt,
           std::nullopt,
           "the event must live until the wait is issued"});
    }
  }
  state_->log.publish(std::move(found));
  return moment;
}

void Checker::waited(Handle stream, Moment const& moment, Account of) {
  auto const guard = state_->lock();
  auto& waiter = state_->order.stream(stream);
  waiter.clock.merge(moment.clock);
  if (of == Account::program) {
    waiter.issue_clock.merge(moment.issued);
  }
  if (waiter.capture == nullptr && moment.capture != nullptr && !moment.capture->is_over) {
    waiter.capture = moment.capture;
  }
}

void Checker::host_saw(Moment const& moment, Account of) {
  auto const guard = state_->lock();
  state_->order.host_saw(moment);
  if (of == Account::program) {
    state_->order.host_waited(moment.issued);
  }
}

bool Checker::reserve(OperationHandle const& operation, Handle handle, TrackedOrder const& order) {
  std::vector<CheckReport> found;
  auto const guard = state_->lock();
  auto& stream = state_->order.stream(handle);
  auto const before = stream.issue_clock;
  auto const follow = [&](detail::Place place, detail::CheckClock const& clock) {
    stream.issue_clock.merge(clock.numbers());
    stream.issue_clock.raise(place);
  };
  for (auto const& position : order.needed) {
    state_->lines.look_up(order.tracker, position, follow);
  }
  auto const work = state_->next_work(operation, handle, stream);
  state_->judge_issue(*work, stream, found);
  state_->find_writes_of_held_memory(*work, stream, found);
  bool const goes_on = !state_->stops(found);
  if (goes_on) {
    state_->note(work, stream);
    state_->issued.insert_or_assign(operation.get(), work);
    state_->lines.note(order.tracker, order.position, work->place, work->clock);
    state_->lines.launching(order.tracker, order.position, work);
    state_->lines.trim(order.tracker, order.position.stream, [&](detail::Place place) {
      return state_->order.host_waited_for(place);
    });
  } else {
    stream.issue_clock = before;  // an operation that is not launched orders nothing
  }
  if (!found.empty()) {
    state_->untold.insert_or_assign(operation.get(), State::Untold{std::move(found)});
  }
  return goes_on;
}

void Checker::tell(Operation const& operation) {
  State::Untold untold;
  {
    auto const guard = state_->lock();
    auto const entry = state_->untold.extract(&operation);
    if (entry.empty()) {
      return;
    }
    untold = std::move(entry.mapped());
  }
  if (untold.in_a_destructor) {
    state_->log.publish_quietly(untold.found);
  } else {
    state_->log.publish(std::move(untold.found));
  }
}

void Checker::mark(Handle handle, void const* tracker, order::Position position) {
  auto const guard = state_->lock();
  auto& stream = state_->order.stream(handle);
  auto const place = state_->order.next_place(stream);
  stream.issued = place.number;
  stream.launched = place.number;
  state_->lines.note(tracker, position, place, stream.issue_clock.share());
  state_->lines.trim(tracker, position.stream, [&](detail::Place of) {
    return state_->order.host_waited_for(of);
  });
}

void Checker::launched(void const* tracker, order::Position position) noexcept {
  auto const guard = state_->lock_if_here();
  if (!guard.owns_lock()) {
    return;
  }
  if (auto const work = state_->lines.launched(tracker, position)) {
    if (work->state == State::IssuedWork::State::issued) {
      work->state = State::IssuedWork::State::given_up;
      work->follows.clear();
    }
    state_->issued.erase(work->operation.get());
  }
}

void Checker::follow(Handle handle, void const* tracker, std::span<order::Position const> needed) {
  auto const guard = state_->lock();
  auto& stream = state_->order.stream(handle);
  for (auto const& position : needed) {
    state_->lines.look_up(
        tracker, position, [&](detail::Place place, detail::CheckClock const& clock) {
          stream.issue_clock.merge(clock.numbers());
          stream.issue_clock.raise(place);
        });
  }
}

void Checker::host_follows(void const* tracker, order::Position position) {
  auto const guard = state_->lock();
  state_->lines.look_up(tracker, position, [&](detail::Place place, detail::CheckClock clock) {
    clock.raise(place);
    state_->order.host_waited(clock.numbers());
  });
}

void Checker::declare(Operation& operation) {
  std::vector<CheckReport> found;
  {
    auto const guard = state_->lock();
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
    auto const guard = state_->lock();
    auto& stream = state_->order.stream(handle);
    auto const reserved = state_->issued.find(operation.get());
    bool const is_new = reserved == state_->issued.end();
    auto const work =
        is_new ? state_->next_work(operation, handle, stream) : std::move(reserved->second);
    if (is_new) {
      state_->judge_issue(*work, stream, found);
      state_->find_writes_of_held_memory(*work, stream, found);
    } else {
      state_->issued.erase(reserved);
    }
    state_->judge_launch(*work, stream, found);
    state_->find_reads_of_what_was_given_up(*operation, found);
    if (!state_->stops(found)) {
      if (is_new) {
        state_->note(work, stream);
      }
      work->state = State::IssuedWork::State::launched;
      stream.active = work;
    } else {
      work->state = State::IssuedWork::State::given_up;
    }
  }
  state_->log.publish(std::move(found));
}

void Checker::end(Handle handle, Outcome outcome) noexcept {
  auto const guard = state_->lock_if_here();
  if (!guard.owns_lock()) {
    return;
  }
  auto& stream = state_->order.stream(handle);
  if (auto const work = std::exchange(stream.active, nullptr)) {
    state_->note_outcome(*work->operation, outcome);
    stream.launched = std::max(stream.launched, work->place.number);
  }
}

void Checker::give_up(Operation const& operation) noexcept {
  auto const guard = state_->lock_if_here();
  if (!guard.owns_lock()) {
    return;
  }
  state_->note_outcome(operation, Outcome::failed);
  state_->untold.erase(&operation);
  if (auto const reserved = state_->issued.extract(&operation); !reserved.empty()) {
    reserved.mapped()->state = State::IssuedWork::State::given_up;
    reserved.mapped()->follows.clear();
  }
}

void Checker::begin_foreign_work(OperationHandle const& operation, Handle handle) {
  std::vector<CheckReport> found;
  {
    auto const guard = state_->lock();
    auto& stream = state_->order.stream(handle);
    auto const work = state_->next_work(operation, handle, stream);
    work->lane = State::name_of(handle, stream);
    work->state = State::IssuedWork::State::launched;
    state_->judge_issue(*work, stream, found);
    state_->judge_launch(*work, stream, found);
    state_->find_other_holders(work, stream, found);
    if (!state_->stops(found)) {
      stream.issued = work->place.number;
      stream.launched = work->place.number;
      state_->holds.push_back({work, stream.index, State::capture_of(stream)});
      // Ends the foreign work on the holder's other streams, too, because end_foreign_work() will
      // not be called for it.
    } else {
      std::erase_if(state_->holds,
                    [&](auto const& hold) { return hold.work->operation == operation; });
      state_->note_outcome(*operation, Outcome::failed);
    }
  }
  state_->log.publish(std::move(found));
}

void Checker::end_foreign_work(OperationHandle const& operation, Handle handle) {
  auto const guard = state_->lock();
  auto& stream = state_->order.stream(handle);
  auto const work = state_->next_work(operation, handle, stream);
  // Places the end of foreign work after all work on the stream so far, without a place of its own:
  // the tracker has marked the same point of the stream.
  work->place.number = stream.issued;
  work->lane = State::name_of(handle, stream);
  work->state = State::IssuedWork::State::launched;
  auto const hold =
      std::find_if(state_->holds.begin(), state_->holds.end(), [&](State::Hold const& held) {
        return held.work->operation == operation && held.stream_index == stream.index;
      });
  if (hold != state_->holds.end()) {
    std::vector<CheckReport> found;
    state_->find_copies_beside(*hold, *work, state_->history_of(stream), found);
    if (!found.empty()) {
      auto& untold = state_->untold[operation.get()];
      untold.in_a_destructor = true;
      std::move(found.begin(), found.end(), std::back_inserter(untold.found));
    }
    state_->holds.erase(hold);
  }
  for (auto const& use : operation->uses) {
    state_->history_of(stream).note_beside(detail::interval_of(use),
                                           State::access(work, nullptr, use));
  }
  state_->note_outcome(*operation, Outcome::launched);
}

OperationHandle Checker::begin_transfer(std::string_view name,
                                        std::vector<MemoryUse> uses,
                                        Handle handle) {
  std::vector<CheckReport> found;
  State::Work transfer;
  {
    auto const guard = state_->lock();
    auto& stream = state_->order.stream(handle);
    if (auto const active = stream.active; active != nullptr) {
      state_->adopt(*active->operation, uses, found);
      for (auto const& use : uses) {
        bool const is_late = state_->judge_issue(
            *active, nullptr, use, state_->history_of(stream), [&](CheckReport report, auto&) {
              found.push_back(std::move(report));
            });
        auto const range = detail::interval_of(use);
        auto const access = State::access(active, nullptr, use);
        auto& history = state_->history_of(stream);
        is_late ? history.note_beside(range, access) : history.note(range, access);
      }
      state_->judge_launch(*active, stream, found);
      if (stream.capture != nullptr && !uses.empty()) {
        auto part = *active->operation;
        part.uses = std::move(uses);
        stream.capture->operations.push_back(std::make_shared<Operation const>(std::move(part)));
      }
    } else {
      auto own = operation_past_issue(name, std::move(uses));
      own.lane = State::name_of(handle, stream);
      state_->find_misuse(own, own.uses, found);
      state_->find_reads_of_what_was_given_up(own, found);
      transfer =
          state_->next_work(std::make_shared<Operation const>(std::move(own)), handle, stream);
      transfer->past_issue = true;
      state_->judge_issue(*transfer, stream, found);
      state_->judge_launch(*transfer, stream, found);
      if (!state_->stops(found)) {
        transfer->state = State::IssuedWork::State::launched;
        state_->note_issued(*transfer->operation);
        state_->note(transfer, stream);
      }
    }
  }
  state_->log.publish(std::move(found));
  return transfer != nullptr ? transfer->operation : nullptr;
}

void Checker::end_transfer(OperationHandle const& transfer,
                           Handle handle,
                           Outcome outcome) noexcept {
  if (transfer != nullptr) {
    auto const guard = state_->lock_if_here();
    if (!guard.owns_lock()) {
      return;
    }
    auto& stream = state_->order.stream(handle);
    state_->note_outcome(*transfer, outcome);
    stream.launched = stream.issued;
  }
}

void Checker::capture_began(Handle origin) {
  auto const guard = state_->lock();
  state_->order.stream(origin).capture = std::make_shared<detail::CapturedParts>();
}

void Checker::capture_ended(Handle origin) noexcept {
  auto const guard = state_->lock_if_here();
  if (!guard.owns_lock()) {
    return;
  }
  if (auto const capture = state_->order.stream(origin).capture) {
    capture->is_over = true;
    state_->order.end_capture(*capture);
  }
}

void Checker::graph_made(Handle origin, Handle graph) {
  auto const guard = state_->lock();
  if (auto const capture = state_->order.stream(origin).capture) {
    state_->graphs.insert_or_assign(
        graph,
        std::make_shared<std::vector<OperationHandle> const>(std::move(capture->operations)));
    capture->is_over = true;
    state_->order.end_capture(*capture);
  }
}

void Checker::graph_destroyed(Handle graph) noexcept {
  auto const guard = state_->lock_if_here();
  if (!guard.owns_lock()) {
    return;
  }
  state_->graphs.erase(graph);
}

OperationParts Checker::parts_of(Handle graph) const {
  auto const guard = state_->lock();
  auto const found = state_->graphs.find(graph);
  return found != state_->graphs.end() ? found->second : nullptr;
}

OperationHandle Checker::begin_launch(Handle graph, Handle handle) {
  std::vector<CheckReport> found;
  State::Work launch;
  {
    auto const guard = state_->lock();
    auto& stream = state_->order.stream(handle);
    auto const parts = state_->graphs.find(graph);
    if (parts == state_->graphs.end() ||
        (stream.active != nullptr && stream.active->operation->parts == parts->second)) {
      return nullptr;
    }
    auto operation = operation_past_issue("replay", {});
    operation.parts = parts->second;
    launch =
        state_->next_work(std::make_shared<Operation const>(std::move(operation)), handle, stream);
    launch->past_issue = true;
    state_->judge_issue(*launch, stream, found);
    state_->judge_launch(*launch, stream, found);
    if (!state_->stops(found)) {
      launch->state = State::IssuedWork::State::launched;
      state_->note(launch, stream);
    }
  }
  state_->log.publish(std::move(found));
  return launch->operation;
}

}  // namespace msstream
