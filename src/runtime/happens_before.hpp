// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/checker.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msstream::detail {

/// A place in the checker's order: the `number`-th piece of work of the stream at `index`. Not the
/// tracker's position, on purpose.
struct Place {
  std::size_t index;
  std::uint64_t number;
};

/// For each stream, how much of it comes before (Mattern 1989).
class CheckClock {
 public:
  CheckClock() = default;
  explicit CheckClock(std::vector<std::uint64_t> numbers) : numbers_(std::move(numbers)) {}

  [[nodiscard]] bool covers(Place place) const noexcept {
    return place.index < numbers_.size() && numbers_[place.index] >= place.number;
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

/// What precedes what, from the calls alone. Not synchronised.
class HappensBefore {
 public:
  using Handle = Checker::Handle;
  using Moment = Checker::Moment;

  struct Stream {
    std::size_t index;
    std::uint64_t finished_launching = 0;  ///< how many pieces of work it has got
    CheckClock clock = {};                 ///< what precedes its next one
    OperationHandle active = nullptr;      ///< the operation whose work is being launched
    std::string lane = {};                 ///< what its operations call it
    bool is_ours = false;                  ///< made and destroyed by the runtime
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
      vacated_.push_back({found->second.index, found->second.finished_launching});
      streams_.erase(found);
    }
  }
  /// A stream that was made elsewhere is taken up when it is first met.
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

  /// The place of what is launched next on the stream, which follows all that the host has seen.
  Place next_place(Stream& on) {
    on.clock.merge(host_.numbers());
    return {on.index, on.finished_launching + 1};
  }
  /// All that the stream has got.
  [[nodiscard]] static Moment tail_of(Stream const& on) {
    CheckClock clock = on.clock;
    clock.raise({on.index, on.finished_launching});
    return {clock.numbers()};
  }
  [[nodiscard]] static bool precedes(Place place, Stream const& next) noexcept {
    return place.index == next.index || next.clock.covers(place);
  }
  [[nodiscard]] bool host_knows(Place place) const noexcept { return host_.covers(place); }
  void host_saw(Moment const& moment) { host_.merge(moment.clock); }

 private:
  /// An index is used again when the host knows all of its work to be over; its numbers go on.
  Stream new_stream() {
    auto const free = std::find_if(vacated_.begin(), vacated_.end(), [&](Place last) {
      return last.number == 0 || host_knows(last);
    });
    if (free == vacated_.end()) {
      return {indices_++};
    }
    Stream again{free->index, free->number};
    vacated_.erase(free);
    return again;
  }

  std::unordered_map<Handle, Stream> streams_;
  std::unordered_map<Handle, Event> events_;
  std::vector<Place> vacated_;
  std::size_t indices_ = 0;
  CheckClock host_;
};

}  // namespace msstream::detail
