// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trust/choices.hpp"

#include <msstream/msstream.hpp>
#include <msstream/runtime/checked.hpp>
#include <msstream/runtime/sim.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace msstream::testing {

/// What a program computed is not what the same program computes on one stream.
class WrongValue : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A random program against the public interface, right by construction: whatever it is ordered by
/// is msstream's to keep.
///
/// Each tensor holds one number many times over. The program keeps the number that it should be,
/// computed in the order of issue, and compares whenever the host gets to see a tensor: a mistake
/// in msstream throws RaceError, from a checking runtime, or WrongValue. Several programs may share
/// a device and a pool, each on its own thread.
template <Runtime R>
class ApiProgram {
 public:
  ApiProgram(Choices& choices, Device<R> device, StreamPool<R>& pool)
      : choose_(choices), device_(std::move(device)), pool_(pool), user_memory_(device_) {
    for (auto& stream : streams_) {
      stream = std::make_unique<Stream<R>>(device_.context());
    }
  }

  /// Throws what is found.
  void run(std::size_t steps) {
    for (std::size_t i = 0; i < steps && !choose_.exhausted(); ++i) {
      step();
    }
    while (!numbers_.empty()) {
      look_at_last();
    }
    for (auto const& reading : readings_) {
      finish(reading);
    }
  }

 private:
  using Element = std::int64_t;

  struct Number {
    Tensor<Element, R> tensor;
    Element expected;
  };
  /// A copy to the host under way, and what it should bring.
  struct Reading {
    PinnedArray<Element, R> staged;
    Element expected;
  };
  /// Memory that msstream does not know, kept in order by the program's own events.
  struct UserMemory {
    static constexpr std::size_t kCount = 8;

    explicit UserMemory(Device<R> const& on)
        : runtime(on.context()->runtime),
          data(static_cast<Element*>(runtime->allocate_device(kCount * sizeof(Element)))) {}
    UserMemory(UserMemory const&) = delete;
    UserMemory& operator=(UserMemory const&) = delete;
    ~UserMemory() {
      try {
        if (last_use) {
          last_use->synchronize();
        }
      } catch (...) {  // NOLINT(bugprone-empty-catch): the program has failed already
      }
      runtime->free_device(data, kCount * sizeof(Element));
    }

    std::shared_ptr<R> runtime;
    Element* data;
    std::optional<Event<R>> last_use;
  };

  void step() {
    auto const what = choose_.below(100);
    if (numbers_.empty() || what < 14) {
      make_number();
    } else if (what < 52) {
      compute();
    } else if (what < 60) {
      drop_any();
    } else if (what < 66) {
      start_reading();
    } else if (what < 71) {
      finish_a_reading();
    } else if (what < 74) {
      upload();
    } else if (what < 80) {
      use_user_memory();
    } else if (what < 84) {
      work_under_a_holder();
    } else if (what < 87) {
      freeze_one();
    } else if (what < 90) {
      replace_a_stream();
    } else if (what < 93) {
      wait_for_an_event();
    } else if (what < 95) {
      record_many();
    } else if (what < 97) {
      publish(choose_.any_of(numbers_).tensor);
    } else {
      static_cast<void>(pool_.acquire());
    }
  }

  StreamGroup<R>& any_group() {
    auto const g = choose_.below(static_cast<std::size_t>(pool_.groups()) + 1);
    return g == static_cast<std::size_t>(pool_.groups()) ? device_.default_group()
                                                         : pool_[static_cast<int>(g)];
  }
  Stream<R>& any_stream() { return *choose_.any_of(streams_); }

  static void set_all(Element* elements, std::int64_t count, Element value) {
    std::fill_n(elements, count, value);
  }
  /// Does not commute, and tells every operand's place. Long chains wrap around.
  static Element mix(Element accumulated, Element operand) {
    return static_cast<Element>(static_cast<std::uint64_t>(accumulated) * 31 +
                                static_cast<std::uint64_t>(operand) * 7 + 1);
  }
  static Element next(Element value) {
    return static_cast<Element>(static_cast<std::uint64_t>(value) + 1);
  }

  std::optional<Tensor<Element, R>> new_tensor() {
    constexpr std::array<std::int64_t, 4> counts{4, 4, 40, 150};
    try {
      return Tensor<Element, R>(device_, {counts[choose_.below(counts.size())]});
    } catch (OutOfMemory const&) {
      return std::nullopt;
    }
  }

  void make_number() {
    StreamScope const scope(any_group());
    auto const tensor = new_tensor();
    if (!tensor) {
      drop_any();
      return;
    }
    Element const value = next_value_++;
    issue("set", writes(*tensor), [value, data = tensor->data(), count = tensor->count()](auto s) {
      s.run([=] { set_all(data, count, value); });
    });
    numbers_.push_back({*tensor, value});
  }

  /// One number becomes a function of itself, perhaps, and of some others.
  void compute() {
    StreamScope const scope(any_group());
    std::vector<Tensor<Element, R>> inputs;
    Element expected = 0;
    for (std::size_t i = choose_.below(3); i > 0; --i) {
      auto const& input = choose_.any_of(numbers_);
      inputs.push_back(input.tensor);
      expected = mix(expected, input.expected);
    }
    auto& target = choose_.any_of(numbers_);
    if (target.tensor.immutable()) {
      return;
    }
    std::vector<Element const*> sources;
    for (auto const& input : inputs) {
      sources.push_back(input.data());
    }
    auto const body = [sources, out = target.tensor.data(), count = target.tensor.count()](auto s) {
      s.run([=] {
        Element value = 0;
        for (auto const* const source : sources) {
          value = mix(value, *source);
        }
        set_all(out, count, value);
      });
    };
    if (inputs.empty()) {
      issue("compute", writes(target.tensor), body);
    } else {
      issue("compute", reads(inputs), writes(target.tensor), body);
    }
    target.expected = expected;
  }

  void drop_any() {
    if (!numbers_.empty()) {
      std::swap(choose_.any_of(numbers_), numbers_.back());
      numbers_.pop_back();
    }
  }

  Reading read(Number const& number) {
    PinnedArray<Element, R> staged(device_, static_cast<std::size_t>(number.tensor.count()));
    copy(staged, number.tensor);
    return {std::move(staged), number.expected};
  }
  static void finish(Reading const& reading) {
    reading.staged.wait();
    for (auto const element : reading.staged.elements()) {
      if (element != reading.expected) {
        throw WrongValue(text("read ", element, ", expected ", reading.expected));
      }
    }
  }
  void start_reading() {
    StreamScope const scope(any_group());
    readings_.push_back(read(choose_.any_of(numbers_)));
  }
  void finish_a_reading() {
    if (!readings_.empty()) {
      std::swap(choose_.any_of(readings_), readings_.back());
      if (choose_.below(4) != 0) {
        finish(readings_.back());
      }
      readings_.pop_back();
    }
  }
  void look_at_last() {
    finish(read(numbers_.back()));
    numbers_.pop_back();
  }

  void upload() {
    StreamScope const scope(any_group());
    auto& target = choose_.any_of(numbers_);
    if (target.tensor.immutable()) {
      return;
    }
    Element const value = next_value_++;
    PinnedArray<Element, R> const staged(device_, static_cast<std::size_t>(target.tensor.count()));
    std::ranges::fill(staged.elements(), value);
    copy(target.tensor, staged);
    target.expected = value;
  }

  void use_user_memory() {
    auto& group = any_group();
    StreamScope const scope(group);
    if (user_memory_.last_use) {
      group.compute().wait(*user_memory_.last_use);
    }
    auto* const data = user_memory_.data;
    issue("user memory",
          writes(raw_memory(device_, data, UserMemory::kCount)),
          [data, from = user_value_, to = user_value_ + 1](auto s) {
            s.run([=] { set_all(data, UserMemory::kCount, *data == from || from == 0 ? to : -1); });
          });
    ++user_value_;
    user_memory_.last_use = group.compute().record();
  }

  void work_under_a_holder() {
    auto& target = choose_.any_of(numbers_);
    if (target.tensor.immutable()) {
      return;
    }
    auto& stream = any_stream();
    TensorHolder holder(stream);
    holder.hold(target.tensor);
    device_.context()->runtime->call_host(
        stream.native(), [data = target.tensor.data(), count = target.tensor.count()] {
          set_all(data, count, next(*data));
        });
    target.expected = next(target.expected);
    if (choose_.below(3) == 0) {
      numbers_.erase(numbers_.begin() + (&target - numbers_.data()));
    }
  }

  void freeze_one() {
    StreamScope const scope(any_group());
    choose_.any_of(numbers_).tensor.freeze();
  }

  void replace_a_stream() {
    auto& stream = choose_.any_of(streams_);
    stream = nullptr;
    stream = std::make_unique<Stream<R>>(device_.context());
  }

  void wait_for_an_event() {
    events_.push_back(choose_.below(2) == 0 ? any_stream().record()
                                            : any_group().compute().record());
    if (events_.size() > 6) {
      events_.erase(events_.begin());
    }
    auto const& event = choose_.any_of(events_);
    if (choose_.below(3) == 0) {
      static_cast<void>(event.query());
    } else {
      any_stream().wait(event);
    }
  }

  /// More than a stream keeps.
  void record_many() {
    auto& group = any_group();
    for (int i = 0; i < 20; ++i) {
      static_cast<void>(group.compute().record());
    }
  }

  Choices& choose_;
  Device<R> device_;
  StreamPool<R>& pool_;
  std::array<std::unique_ptr<Stream<R>>, 3> streams_;
  UserMemory user_memory_;
  std::vector<Number> numbers_;
  std::vector<Reading> readings_;
  std::vector<Event<R>> events_;
  Element next_value_ = 1;
  Element user_value_ = 0;
};

/// The device and the pool of a program, as its choices say.
template <class Inner>
[[nodiscard]] Device<Checked<Inner>> device_for(Choices& choose,
                                                typename Inner::Options runtime = {}) {
  bool const reduce_waits = choose.below(8) != 0;
  std::size_t const limit_bytes = choose.below(2) == 0 ? 5U << 10U : 24U << 10U;
  return Device<Checked<Inner>>(
      {.runtime = {.runtime = std::move(runtime),
                   .check = {.mode = CheckMode::throw_error, .report_path = {}}},
       .reduce_waits = reduce_waits,
       .memory = {.limit_bytes = limit_bytes, .max_growth_bytes = std::size_t{2} << 10U}});
}
[[nodiscard]] inline StreamPoolOptions pool_for(Choices& choose) {
  auto const groups = static_cast<int>(1 + choose.below(4));
  return {.groups = groups,
          .merge_streams = choose.below(2) == 0,
          .launch_threads = LaunchThreads::none};
}

/// One program on a simulated device that runs its work in any order that the waits leave open.
/// Throws what is found, also what only the end shows.
inline void run_simulated(Choices choose, std::uint64_t schedule_seed, std::size_t steps) {
  std::shared_ptr<Checker> checker;
  {
    auto const device = device_for<Sim>(choose, {.schedule = sim::random(schedule_seed)});
    checker = device.context()->runtime->checker();
    StreamPool pool(device, pool_for(choose));
    ApiProgram(choose, device, pool).run(steps);
  }
  checker->report_leaks();
  if (checker->count() != 0) {
    throw RaceError(checker->reports().front());
  }
}

}  // namespace msstream::testing
