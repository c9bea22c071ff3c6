// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stream/dependency_tracker.hpp"
#include "stream/recording_runtime.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace msstream::testing {

struct ProgramOptions {
  bool reduce_waits = true;
  bool host_looks = true;       ///< the host synchronizes and queries at random
  bool streams_change = false;  ///< streams are replaced while work is in flight
};

/// A random program, driven through a DependencyTracker on a RecordingRuntime.
///
/// The required order is computed without the tracker, from the reads and writes of all earlier
/// operations. A wait is redundant if everything for which the operation must wait on the stream
/// already comes before the operation, according to the oracle.
class RandomProgram {
 public:
  using Node = RecordingRuntime::Oracle::Node;
  struct Ordered {
    Node first;
    Node second;
  };

  RandomProgram(std::uint32_t seed, ProgramOptions options)
      : random_(seed),
        options_(options),
        tracker_(life_of<RecordingRuntime>, {.reduce_waits = options.reduce_waits, .explain = {}}) {
    runtime_.found_complete = [this] { return options_.host_looks && below(4) == 0; };
    runtime_.before_wait = [this](std::size_t stream, RecordingRuntime::Event const& event) {
      check_not_redundant(stream, event);
    };
    bool const is_long = below(40) == 0;
    std::size_t const streams = is_long ? below(3) + 2 : below(16) + 1;
    std::size_t const steps = is_long ? 250 : below(56) + 5;
    buffers_ = std::vector<Buffer>(below(6) + 1);
    for (std::size_t i = 0; i < streams; ++i) {
      streams_.push_back(new_stream());
    }
    for (std::size_t i = 0; i < steps; ++i) {
      step();
    }
  }

  [[nodiscard]] RecordingRuntime const& runtime() const noexcept { return runtime_; }
  [[nodiscard]] WaitCounts counts() const { return tracker_.wait_counts(); }
  [[nodiscard]] std::size_t redundant_waits() const noexcept { return redundant_waits_; }
  /// Returns how many of the events that the program holds have been recorded again for other work.
  [[nodiscard]] std::size_t changed_events() const {
    return static_cast<std::size_t>(std::count_if(held_.begin(), held_.end(), [](Held const& held) {
      return stands_for(held.event) != held.stands_for;
    }));
  }

  /// Returns the number of conflicting pairs of operations that the waits leave unordered, when the
  /// wait with the index `without` is left out.
  [[nodiscard]] std::size_t races(std::size_t without = RecordingRuntime::Oracle::kNone) const {
    RecordingRuntime::Oracle oracle;
    std::size_t wait = 0;
    for (auto const& step : runtime_.steps()) {
      using Kind = RecordingRuntime::Step::Kind;
      if (step.kind == Kind::host_wait) {
        oracle.host_waits_for(step.after);
      } else {
        bool const dropped = step.kind == Kind::wait && wait++ == without;
        oracle.append(step.stream, dropped ? RecordingRuntime::Oracle::kNone : step.after);
      }
    }
    return static_cast<std::size_t>(
        std::count_if(ordered_.begin(), ordered_.end(), [&](Ordered const& pair) {
          return !oracle.precedes(pair.first, pair.second);
        }));
  }

 private:
  using Tracker = detail::DependencyTracker;
  struct Use {
    Node node;
    std::size_t stream;
    order::Position position;
    AccessMode mode;
  };
  /// An event that the program holds, and the work that the event covered when it was obtained.
  struct Held {
    Tracker::EventHandle event;
    Node stands_for;
  };
  struct Buffer {
    detail::AccessRecord record;
    std::vector<Use> uses;
  };

  std::size_t below(std::size_t limit) { return random_() % limit; }
  template <class T>
  T& any(std::vector<T>& of) {
    return of[below(of.size())];
  }

  static RecordingRuntime::native_stream queue(Tracker::Slot const& slot) noexcept {
    return static_cast<RecordingRuntime::native_stream>(slot.native);
  }
  static Node stands_for(Tracker::EventHandle const& event) noexcept {
    return static_cast<RecordingRuntime::native_event>(event->native)->stands_for;
  }

  Tracker::Slot* new_stream() {
    return &tracker_.attach(runtime_.create_stream(StreamPriority::normal), pool_);
  }

  void step() {
    std::size_t const choice = below(100);
    if (operations_.empty() || choice < 80) {
      issue();
    } else if (choice < 86) {
      wait_for_an_event();
    } else if (choice < 92) {
      if (auto event = tracker_.event_at(any(operations_).position)) {
        held_.push_back({event, stands_for(event)});
      }
    } else if (choice < 94 && options_.host_looks) {
      tracker_.synchronize(any(operations_).position);
    } else if (choice < 96 && options_.host_looks) {
      (void)tracker_.is_complete(any(operations_).position);
      (void)tracker_.outstanding(*any(streams_));
    } else if (options_.streams_change) {
      auto*& slot = any(streams_);
      tracker_.detach(*slot);
      slot = new_stream();
    }
  }

  void issue() {
    auto& slot = *any(streams_);
    detail::AccessSet accesses;
    std::vector<std::pair<Buffer*, AccessMode>> touched;
    for (std::size_t i = below(4); i < 4; ++i) {
      auto& buffer = any(buffers_);
      auto const mode = below(3) == 0 ? AccessMode::write : AccessMode::read;
      accesses.add(buffer.record, mode);
      touched.emplace_back(&buffer, mode);
    }
    needed_.clear();
    for (auto const& [buffer, mode] : touched) {
      for (auto const& use : buffer->uses) {
        if (mode == AccessMode::write || use.mode == AccessMode::write) {
          needed_.push_back(use);
        }
      }
    }
    order::PositionSet hazards;
    auto const number = tracker_.reserve(slot, accesses, hazards);
    Use mine{0, queue(slot)->index, {slot.index, number}, AccessMode::read};
    static_cast<void>(
        tracker_.launch(slot, number, hazards, [&] { mine.node = runtime_.work(queue(slot)); }));
    must_follow_needed(mine.node);
    for (auto const& [buffer, mode] : touched) {
      mine.mode = mode;
      buffer->uses.push_back(mine);
    }
    operations_.push_back(mine);
  }

  void wait_for_an_event() {
    auto& slot = *any(streams_);
    needed_ = {any(operations_)};
    order::PositionSet position;
    position.add(needed_.front().position);
    tracker_.while_idle(slot, [&] { tracker_.order_after(slot, position); });
    must_follow_needed(runtime_.work(queue(slot)));
  }

  void must_follow_needed(Node node) {
    for (auto const& use : needed_) {
      ordered_.push_back({use.node, node});
    }
  }

  void check_not_redundant(std::size_t stream, RecordingRuntime::Event const& event) {
    bool const called_for = std::any_of(needed_.begin(), needed_.end(), [&](Use const& use) {
      return use.stream == event.source && !runtime_.oracle().precedes_next(use.node, stream);
    });
    if (!called_for) {
      ++redundant_waits_;
    }
  }

  std::mt19937 random_;
  ProgramOptions options_;
  std::shared_ptr<detail::Backend> backend_ = detail::make_backend<RecordingRuntime>({});
  RecordingRuntime& runtime_ = detail::runtime_of<RecordingRuntime>(*backend_);
  std::shared_ptr<detail::EventPool> pool_ = std::make_shared<detail::EventPool>(backend_);
  Tracker tracker_;
  std::vector<Tracker::Slot*> streams_;
  std::vector<Buffer> buffers_;
  std::vector<Use> operations_;
  std::vector<Use> needed_;
  std::vector<Ordered> ordered_;
  std::vector<Held> held_;
  std::size_t redundant_waits_ = 0;
};

}  // namespace msstream::testing
