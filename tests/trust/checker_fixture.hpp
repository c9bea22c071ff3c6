// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trust/checked_fixture.hpp"

#include <msstream/runtime/checker.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {

inline constexpr std::size_t kPartBytes = 256;

/// Returns the address of a numbered part of the memory that the tests declare. Nothing accesses
/// that memory.
[[nodiscard]] inline void const* address(std::size_t part) {
  return reinterpret_cast<void const*>(std::uintptr_t{0x10000} + part * kPartBytes);
}
[[nodiscard]] inline MemoryUse use(std::size_t part, AccessMode mode) {
  return {address(part), kPartBytes, mode};
}
/// Returns a range of memory that begins and ends in the middle of numbered parts.
[[nodiscard]] inline std::pair<void const*, std::size_t> range_of(std::size_t part,
                                                                  std::size_t parts) {
  return {static_cast<char const*>(address(part)) + 128, parts * kPartBytes};
}
[[nodiscard]] inline Operation operation(std::string name, std::vector<MemoryUse> uses) {
  return {std::move(name), "lane", {}, {}, std::move(uses)};
}

/// A checker, and functions that notify it as a runtime would, about streams 1 to kStreams and
/// events of any number. The memory in these notifications has 64 parts.
class Streams {
 public:
  static constexpr std::size_t kStreams = 8;

  explicit Streams(CheckerOptions options) : checker(with_no_file(std::move(options))) {
    for (Checker::Handle stream = 1; stream <= kStreams; ++stream) {
      checker.stream_created(stream);
    }
    checker.allocated(address(0), 64 * kPartBytes, Checker::Space::device);
  }

  /// Waits for all streams, destroys them, and frees the memory.
  ~Streams() {
    for (Checker::Handle stream = 1; stream <= kStreams; ++stream) {
      synchronize(stream);
      checker.stream_destroyed(stream);
    }
    checker.freed(address(0), 64 * kPartBytes);
  }
  Streams(Streams const&) = delete;
  Streams& operator=(Streams const&) = delete;

  void write(Checker::Handle stream, std::size_t part, std::string const& name) {
    run(stream, operation(name, {use(part, AccessMode::write)}));
  }
  void read(Checker::Handle stream, std::size_t part, std::string const& name) {
    run(stream, operation(name, {use(part, AccessMode::read)}));
  }
  void use_range(Checker::Handle stream,
                 AccessMode mode,
                 std::pair<void const*, std::size_t> const& range) {
    run(stream, operation("range", {{range.first, range.second, mode}}));
  }
  void run(Checker::Handle stream, Operation const& what) {
    auto const handle = std::make_shared<Operation const>(what);
    checker.begin(handle, stream);
    checker.end(stream, Outcome::launched);
  }

  void record(Checker::Handle event, Checker::Handle stream) {
    checker.recorded(event, checker.tail_of(stream));
  }
  void wait(Checker::Handle stream, Checker::Handle event) {
    if (auto const moment = checker.waitable_moment_of(event, stream)) {
      checker.waited(stream, *moment);
    }
  }
  void order(Checker::Handle earlier, Checker::Handle later) {
    record(kOrderingEvent, earlier);
    wait(later, kOrderingEvent);
  }
  void synchronize(Checker::Handle stream) { checker.host_saw(checker.tail_of(stream)); }

  /// Notifies the checker that an allocator owns the part and has allocated it to the program.
  void take(std::size_t part) {
    checker.pooled(address(part), kPartBytes);
    checker.taken(address(part), kPartBytes);
  }
  Checker checker;

 private:
  static constexpr Checker::Handle kOrderingEvent = 1'000'000;

  static CheckerOptions with_no_file(CheckerOptions options) {
    options.report_path = {};
    return options;
  }
};

}  // namespace msstream::testing
