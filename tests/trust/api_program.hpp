// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/device/device_state.hpp"
#include "stream/stream_context.hpp"
#include "trust/choices.hpp"

#include <msstream/msstream.hpp>
#include <msstream/runtime/checked.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace msstream::testing {

/// Thrown if a random program computes a value that differs from the value computed in the order of
/// issue.
class WrongValue : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A random program that uses the public interface and contains no mistake: the order of its work
/// depends on msstream alone.
///
/// Each tensor has four parts, and all elements of a part hold the same number. The program also
/// computes the expected numbers on the host, in the order of issue, and compares them whenever it
/// reads a tensor back. An error in msstream therefore throws RaceError, from a checking runtime,
/// or WrongValue. Several programs may share a device and a pool, each on its own thread.
template <Runtime R>
class ApiProgram {
 public:
  ApiProgram(Choices& choices, Device<R> device, StreamPool<R>& pool)
      : choose_(choices), device_(std::move(device)), pool_(pool), user_memory_(device_) {
    for (auto& stream : streams_) {
      stream = std::make_unique<Stream<R>>(device_);
    }
  }

  /// Runs at most `steps` steps. Throws the error that it finds.
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

  static constexpr std::size_t kParts = 4;
  using Parts = std::array<Element, kParts>;

  struct Number {
    Tensor<Element, R> tensor;
    Parts expected;
  };
  /// A view of adjacent parts of a tensor, and their expected values.
  struct View {
    Tensor<Element, R> tensor;
    std::span<Element> expected;

    [[nodiscard]] std::int64_t part_count() const {
      return tensor.count() / static_cast<std::int64_t>(expected.size());
    }
  };
  /// A copy to the host that is in flight, and the expected values.
  struct Reading {
    PinnedArray<Element, R> staged;
    std::vector<Element> expected;
  };
  /// Memory that msstream does not manage. The program orders the uses of it with its own events.
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

    std::shared_ptr<detail::Backend> runtime;
    Element* data;
    std::optional<Event<R>> last_use;
  };

  void step() {
    std::optional<StreamScope<R>> scope;
    if (choose_.below(8) != 0) {
      scope.emplace(any_group(), StreamScopeOptions{}, std::source_location::current());
    }
    act();
  }

  void act() {
    auto const what = choose_.below(100);
    if (numbers_.empty() || what < 14) {
      make_number();
    } else if (what < 43) {
      compute();
    } else if (what < 46) {
      copy_parts();
    } else if (what < 48) {
      fill_parts();
    } else if (what < 55) {
      drop_any();
    } else if (what < 61) {
      start_reading();
    } else if (what < 66) {
      finish_a_reading();
    } else if (what < 69) {
      upload();
    } else if (what < 75) {
      use_user_memory();
    } else if (what < 79) {
      work_under_a_holder();
    } else if (what < 81) {
      choose_.any_of(numbers_).tensor.freeze();
    } else if (what < 84) {
      replace_a_stream();
    } else if (what < 91) {
      wait_for_an_event();
    } else if (what < 93) {
      record_many();
    } else if (what < 94) {
      publish(choose_.any_of(numbers_).tensor);
    } else if (what < 95) {
      static_cast<void>(pool_.acquire());
    } else if (what < 96) {
      return_cached_memory();
    } else {
      act_inside();
    }
  }

  /// Takes steps within the current StreamScope. The steps may open further scopes.
  void act_inside() {
    if (depth_ == kDeepest) {
      return;
    }
    ++depth_;
    auto const around = current_group();
    for (std::size_t i = 1 + choose_.below(3); i > 0; --i) {
      step();
      if (current_group() != around) {
        throw WrongValue("the group of a scope is not current again when the scopes in it end");
      }
    }
    --depth_;
  }

  StreamGroup<R> any_group() {
    auto const g = choose_.below(static_cast<std::size_t>(pool_.groups()) + 1);
    return g == static_cast<std::size_t>(pool_.groups()) ? device_.default_group()
                                                         : pool_[static_cast<int>(g)];
  }
  StreamGroup<R> current_group() { return device_.current_group(); }
  Stream<R> const& any_stream() { return *choose_.any_of(streams_); }

  static void set_all(Element* elements, std::int64_t count, Element value) {
    std::fill_n(elements, count, value);
  }
  /// Computes a value that depends on both operands and on their order, so that a wrong or
  /// misplaced operand changes the result. Long chains wrap around.
  static Element mix(Element accumulated, Element operand) {
    return static_cast<Element>(static_cast<std::uint64_t>(accumulated) * 31 +
                                static_cast<std::uint64_t>(operand) * 7 + 1);
  }
  static Element next(Element value) {
    return static_cast<Element>(static_cast<std::uint64_t>(value) + 1);
  }

  /// Returns a view of all parts of the tensor, or of some adjacent ones.
  View any_view(Number& number) {
    bool const whole = choose_.below(2) == 0;
    std::size_t const begin = whole ? 0 : choose_.below(kParts);
    return view_of(number, begin, whole ? kParts : begin + 1 + choose_.below(kParts - begin));
  }
  View any_view() { return any_view(choose_.any_of(numbers_)); }
  static View view_of(Number& number, std::size_t begin, std::size_t end) {
    auto const rows = number.tensor.count() / static_cast<std::int64_t>(kParts);
    return {number.tensor.rows(static_cast<std::int64_t>(begin) * rows,
                               static_cast<std::int64_t>(end) * rows),
            std::span(number.expected).subspan(begin, end - begin)};
  }

  void make_number() {
    constexpr std::array<std::int64_t, 4> counts{4, 4, 40, 152};
    Shape const shape{counts[choose_.below(counts.size())]};
    bool const of_zeros = choose_.below(4) == 0;
    try {
      if (of_zeros) {
        numbers_.push_back({zeros<Element, R>(device_, shape), Parts{}});
        return;
      }
      numbers_.push_back({Tensor<Element, R>(device_, shape), next_values()});
    } catch (OutOfMemory const&) {
      drop_any();
      return;
    }
    auto const& [tensor, values] = numbers_.back();
    auto const rows = tensor.count() / static_cast<std::int64_t>(kParts);
    issue("set", writes(tensor), [values = values, data = tensor.data(), rows](auto s) {
      s.run([=] {
        for (std::size_t part = 0; part < kParts; ++part) {
          set_all(data + static_cast<std::int64_t>(part) * rows, rows, values[part]);
        }
      });
    });
  }
  Parts next_values() {
    Parts values;
    for (auto& value : values) {
      value = next_value_++;
    }
    return values;
  }

  /// Computes parts of one tensor from parts of other tensors or of the same tensor.
  void compute() {
    struct Source {
      Element const* data;
      std::int64_t part_count;
      std::size_t parts;
    };
    std::vector<Tensor<Element, R>> inputs;
    std::vector<Source> sources;
    Element expected = 0;
    for (std::size_t i = choose_.below(3); i > 0; --i) {
      auto const input = any_view();
      inputs.push_back(input.tensor);
      sources.push_back({input.tensor.data(), input.part_count(), input.expected.size()});
      for (auto const value : input.expected) {
        expected = mix(expected, value);
      }
    }
    auto const target = any_view();
    if (target.tensor.immutable()) {
      return;
    }
    auto const body = [sources, out = target.tensor.data(), count = target.tensor.count()](auto s) {
      s.run([=] {
        Element value = 0;
        for (auto const& source : sources) {
          for (std::size_t part = 0; part < source.parts; ++part) {
            value = mix(value, source.data[static_cast<std::int64_t>(part) * source.part_count]);
          }
        }
        set_all(out, count, value);
      });
    };
    if (inputs.empty()) {
      issue("compute", writes(target.tensor), body);
    } else {
      issue("compute", reads(inputs), writes(target.tensor), body);
    }
    std::ranges::fill(target.expected, expected);
  }

  /// Copies parts of a tensor on the device, to another tensor, or to other parts of the same one.
  void copy_parts() {
    auto& from = choose_.any_of(numbers_);
    auto& to = choose_.any_of(numbers_);
    auto const source = any_view(from);
    auto const parts = source.expected.size();
    auto const first = static_cast<std::size_t>(source.expected.data() - from.expected.data());
    auto const begin = choose_.below(kParts - parts + 1);
    auto const target = view_of(to, begin, begin + parts);
    bool const overlap = &from == &to && first < begin + parts && begin < first + parts;
    if (overlap || to.tensor.immutable() || source.tensor.count() != target.tensor.count()) {
      return;
    }
    copy(target.tensor, source.tensor);
    std::ranges::copy(source.expected, target.expected.begin());
  }

  void fill_parts() {
    auto const target = any_view();
    auto const byte = static_cast<std::uint8_t>(choose_.below(256));
    if (!target.tensor.immutable()) {
      fill_bytes(target.tensor, byte);
      std::ranges::fill(target.expected, static_cast<Element>(byte * 0x0101'0101'0101'0101ULL));
    }
  }

  void drop_any() {
    if (!numbers_.empty()) {
      std::swap(choose_.any_of(numbers_), numbers_.back());
      numbers_.pop_back();
    }
  }

  Reading read(View const& view) {
    PinnedArray<Element, R> staged(device_, static_cast<std::size_t>(view.tensor.count()));
    copy(staged, view.tensor);
    return {std::move(staged), {view.expected.begin(), view.expected.end()}};
  }
  static void finish(Reading const& reading) {
    reading.staged.wait();
    auto const elements = reading.staged.elements();
    auto const part_count = elements.size() / reading.expected.size();
    for (std::size_t i = 0; i < elements.size(); ++i) {
      auto const expected = reading.expected[i / part_count];
      if (elements[i] != expected) {
        throw WrongValue(fmt::format("read {}, expected {}", elements[i], expected));
      }
    }
  }
  void start_reading() { readings_.push_back(read(any_view())); }
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
    finish(read(view_of(numbers_.back(), 0, kParts)));
    numbers_.pop_back();
  }

  void upload() {
    auto const target = any_view();
    if (target.tensor.immutable()) {
      return;
    }
    Element const value = next_value_++;
    PinnedArray<Element, R> const staged(device_, static_cast<std::size_t>(target.tensor.count()));
    std::ranges::fill(staged.elements(), value);
    copy(target.tensor, staged);
    std::ranges::fill(target.expected, value);
  }

  void use_user_memory() {
    auto const group = current_group();
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
    auto& number = choose_.any_of(numbers_);
    auto const target = any_view(number);
    if (target.tensor.immutable()) {
      return;
    }
    auto const& stream = any_stream();
    TensorHolder holder(stream);
    holder.hold(target.tensor);
    std::span<Element> const elements(target.tensor.data(),
                                      static_cast<std::size_t>(target.tensor.count()));
    device_.runtime().call_host(
        stream.native(), [elements] { std::ranges::transform(elements, elements.begin(), next); });
    std::ranges::transform(target.expected, target.expected.begin(), next);
    if (choose_.below(3) == 0) {
      numbers_.erase(numbers_.begin() + (&number - numbers_.data()));
    }
  }

  void return_cached_memory() { device_.return_cached_memory(); }

  void replace_a_stream() {
    auto& stream = choose_.any_of(streams_);
    stream = nullptr;
    stream = std::make_unique<Stream<R>>(device_);
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

  /// Records more events on a stream than the stream keeps.
  void record_many() {
    auto const group = any_group();
    for (int i = 0; i < 20; ++i) {
      static_cast<void>(group.compute().record());
    }
  }

  static constexpr int kDeepest = 3;

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
  int depth_ = 0;
};

}  // namespace msstream::testing
