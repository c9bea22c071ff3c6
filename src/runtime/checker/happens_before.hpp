// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/checker.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msstream::detail {

struct IssuedWork;
class CapturedParts;

/// A position in the checker's order of work: piece of work `number` of the stream with index
/// `index`. Independent of the dependency tracker's positions, so that the checker can check the
/// tracker.
struct Place {
  std::size_t index;
  std::uint64_t number;
};

/// A vector clock (Mattern 1989): for each stream, the number of its pieces of work that happen
/// before.
class CheckClock {
 public:
  CheckClock() = default;
  explicit CheckClock(std::vector<std::uint64_t> numbers) : numbers_(std::move(numbers)) {}

  [[nodiscard]] bool covers(Place place) const noexcept {
    return place.index < numbers_.size() && numbers_[place.index] >= place.number;
  }
  [[nodiscard]] bool covers(std::vector<std::uint64_t> const& other) const noexcept {
    for (std::size_t i = 0; i < other.size(); ++i) {
      if (other[i] != 0 && !covers(Place{i, other[i]})) {
        return false;
      }
    }
    return true;
  }
  void raise(Place place) {
    if (numbers_.size() <= place.index) {
      numbers_.resize(place.index + 1, 0);
    }
    numbers_[place.index] = std::max(numbers_[place.index], place.number);
  }
  void merge(std::vector<std::uint64_t> const& other) {
    if (numbers_.size() < other.size()) {
      numbers_.resize(other.size(), 0);
    }
    for (std::size_t i = 0; i < other.size(); ++i) {
      numbers_[i] = std::max(numbers_[i], other[i]);
    }
  }
  [[nodiscard]] std::vector<std::uint64_t> const& numbers() const noexcept { return numbers_; }

 private:
  std::vector<std::uint64_t> numbers_;
};

/// A copy-on-write vector clock that many pieces of work share. A merge of work that the clock
/// already covers copies nothing.
class SharedClock {
 public:
  void merge(std::vector<std::uint64_t> const& other) {
    if (!clock_->covers(other)) {
      own().merge(other);
    }
  }
  void raise(Place place) {
    if (!clock_->covers(place)) {
      own().raise(place);
    }
  }
  [[nodiscard]] std::shared_ptr<CheckClock const> share() const noexcept { return clock_; }

 private:
  CheckClock& own() {
    if (clock_.use_count() > 1) {
      clock_ = std::make_shared<CheckClock>(*clock_);
    }
    return *clock_;
  }

  std::shared_ptr<CheckClock> clock_ = std::make_shared<CheckClock>();
};

/// The happens-before order of work, kept in two versions: the issue order, from what the program
/// has declared so far, and the launch order, from the calls that the runtime has received. Not
/// synchronised.
///
/// Work gets its Place when it is issued. The work of one stream is launched later, in the order of
/// its places, on any thread.
class HappensBefore {
 public:
  using Handle = Checker::Handle;
  using Moment = Checker::Moment;

  struct Stream {
    std::size_t index;
    std::uint64_t issued = 0;  ///< the number of pieces of work issued to the stream
    /// The number of the newest piece of work launched on the stream.
    std::uint64_t launched = 0;
    SharedClock issue_clock = {};                  ///< the clock of the next work to be issued
    CheckClock clock = {};                         ///< the clock of the next work to be launched
    std::shared_ptr<IssuedWork> active = nullptr;  ///< the operation that is being launched
    std::string lane = {};                         ///< the name of the stream in reports
    bool is_ours = false;                          ///< whether the runtime creates and destroys it
    /// The capture that the stream belongs to, or null.
    std::shared_ptr<CapturedParts> capture = nullptr;
  };
  struct Event {
    enum class State : std::uint8_t { unknown, created, recorded, destroyed };
    State state = State::unknown;
    Moment moment = {};
    bool is_ours = false;
  };

  void create_stream(Handle handle) {
    streams_.insert_or_assign(handle, new_stream()).first->second.is_ours = true;
  }
  void destroy_stream(Handle handle) {
    auto const found = streams_.find(handle);
    if (found != streams_.end()) {
      vacated_.push_back({found->second.index, found->second.issued});
      streams_.erase(found);
    }
  }
  /// Returns the state of the stream. Adds a stream that was created by other code at its first
  /// use.
  Stream& stream(Handle handle) {
    auto const found = streams_.find(handle);
    return found != streams_.end() ? found->second
                                   : streams_.emplace(handle, new_stream()).first->second;
  }
  void create_event(Handle handle) { events_[handle] = {Event::State::created, {}, true}; }
  void destroy_event(Handle handle) { events_[handle] = {Event::State::destroyed, {}, true}; }
  void record(Handle handle, Moment moment) {
    auto& event = events_[handle];
    event.state = Event::State::recorded;
    event.moment = std::move(moment);
  }
  Event& event(Handle handle) { return events_[handle]; }

  [[nodiscard]] std::size_t live_streams() const {
    return static_cast<std::size_t>(std::count_if(
        streams_.begin(), streams_.end(), [](auto const& entry) { return entry.second.is_ours; }));
  }
  [[nodiscard]] std::size_t live_events() const {
    return static_cast<std::size_t>(
        std::count_if(events_.begin(), events_.end(), [](auto const& entry) {
          return entry.second.is_ours && entry.second.state != Event::State::destroyed;
        }));
  }
  /// Ends a capture. Captured work never runs on its own streams, so the places of the captured
  /// work count as complete.
  void end_capture(CapturedParts const& capture) {
    for (auto& [handle, stream] : streams_) {
      if (stream.capture.get() == &capture) {
        stream.capture = nullptr;
        stream.launched = stream.issued;
        host_.raise({stream.index, stream.issued});
        host_at_issue_.raise({stream.index, stream.issued});
      }
    }
  }

  /// Returns the place of the next work issued to the stream. Makes that work follow all work that
  /// the host has waited for.
  Place next_place(Stream& on) {
    on.issue_clock.merge(host_at_issue_.numbers());
    return {on.index, on.issued + 1};
  }
  /// Makes the next work launched on the stream follow all work that the host has seen complete.
  void launch_next(Stream& on) { on.clock.merge(host_.numbers()); }
  /// Returns the vector clocks of the point after all work on the stream so far.
  [[nodiscard]] static Moment tail_of(Stream const& on) {
    CheckClock launched = on.clock;
    launched.raise({on.index, on.launched});
    CheckClock issued = *on.issue_clock.share();
    issued.raise({on.index, on.issued});
    return {launched.numbers(), issued.numbers(), on.capture};
  }
  [[nodiscard]] static bool is_launched_before(Place place, Stream const& next) noexcept {
    return place.index == next.index || next.clock.covers(place);
  }
  /// Returns whether the program has waited for the work at the place, or found it complete by a
  /// query.
  [[nodiscard]] bool host_waited_for(Place place) const noexcept {
    return host_at_issue_.covers(place);
  }
  /// Returns whether the program, the tracker or an allocator has found the work at the place
  /// complete.
  [[nodiscard]] bool host_knows(Place place) const noexcept { return host_.covers(place); }
  void host_saw(Moment const& moment) { host_.merge(moment.clock); }
  void host_waited(std::vector<std::uint64_t> const& issued) { host_at_issue_.merge(issued); }

 private:
  /// Creates the state of a new stream. Reuses the index of a destroyed stream, with increasing
  /// numbers, once the host knows that all work at the index is complete.
  Stream new_stream() {
    auto const free = std::find_if(vacated_.begin(), vacated_.end(), [&](Place last) {
      return last.number == 0 || (host_knows(last) && host_waited_for(last));
    });
    if (free == vacated_.end()) {
      return {indices_++};
    }
    Stream again{free->index, free->number, free->number};
    vacated_.erase(free);
    return again;
  }

  std::unordered_map<Handle, Stream> streams_;
  std::unordered_map<Handle, Event> events_;
  std::vector<Place> vacated_;
  std::size_t indices_ = 0;
  /// The work that the program, the tracker or an allocator has found complete.
  CheckClock host_;
  CheckClock host_at_issue_;  ///< the work that the program has waited for
};

}  // namespace msstream::detail
