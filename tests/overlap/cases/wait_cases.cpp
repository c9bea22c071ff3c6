// SPDX-License-Identifier: Apache-2.0
// Waits that are needed, and waits that are not, in recordings without declared dependencies;
// copies in both directions; priorities. Written before the tool had seen any of them.
#include "overlap/cases/case.hpp"

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace msstream::overlap::cases {
namespace {

Kernel wait_kernel(std::string name, Ns duration, int blocks = 32) {
  return {.name = std::move(name), .duration = duration, .blocks = blocks};
}

/// The side stream needs the first kernel, and waits behind two equal ones more. Fixed: the event
/// is recorded after the first one.
std::vector<Recording> event_behind_two(bool fixed) {
  TraceBuilder program;
  auto const main = program.stream();
  auto const side = program.stream();
  for (int i = 0; i < 12; ++i) {
    auto const produced = program.event();
    auto const joined = program.event();
    auto& thread = program.thread();
    thread.launch(main, wait_kernel("produce", 40 * us));
    if (fixed) {
      thread.record(produced, main);
    }
    thread.launch(main, wait_kernel("layer", 180 * us))
        .launch(main, wait_kernel("layer", 180 * us));
    if (!fixed) {
      thread.record(produced, main);
    }
    thread.wait(side, produced)
        .launch(side, wait_kernel("consume", 330 * us))
        .record(joined, side)
        .wait(main, joined);
  }
  return one(program.run());
}

/// The main stream needs the side stream's first kernel, and waits for a second one that writes a
/// log. Fixed: the event is recorded between the two.
std::vector<Recording> join_behind_log(bool fixed) {
  TraceBuilder program;
  auto const main = program.stream();
  auto const side = program.stream();
  for (int i = 0; i < 12; ++i) {
    auto const forked = program.event();
    auto const joined = program.event();
    auto& thread = program.thread();
    thread.launch(main, wait_kernel("split", 30 * us))
        .record(forked, main)
        .wait(side, forked)
        .launch(side, wait_kernel("gather", 60 * us));
    if (fixed) {
      thread.record(joined, side);
    }
    thread.launch(side, wait_kernel("log", 250 * us));
    if (!fixed) {
      thread.record(joined, side);
    }
    thread.launch(main, wait_kernel("local", 60 * us))
        .wait(main, joined)
        .launch(main, wait_kernel("merge", 260 * us));
  }
  return one(program.run());
}

/// Three streams wait for each other in a ring, and nothing ever runs beside anything. Fixed: no
/// waits.
std::vector<Recording> ring_of_waits(bool fixed) {
  TraceBuilder program;
  std::array const streams{program.stream(), program.stream(), program.stream()};
  std::array const names{"a", "b", "c"};
  auto& thread = program.thread();
  for (int i = 0; i < 10; ++i) {
    for (std::size_t s = 0; s < streams.size(); ++s) {
      auto const done = program.event();
      thread.launch(streams[s], wait_kernel(names[s], 120 * us)).record(done, streams[s]);
      if (!fixed) {
        thread.wait(streams[(s + 1) % streams.size()], done);
      }
    }
  }
  return one(program.run());
}

/// Four streams in a diamond whose waits are all needed: the first kernel is long. Fixed: it is
/// short.
std::vector<Recording> diamond(bool fixed) {
  TraceBuilder program;
  auto const main = program.stream();
  std::array const sides{program.stream(), program.stream(), program.stream()};
  auto& thread = program.thread();
  for (int i = 0; i < 10; ++i) {
    auto const forked = program.event();
    thread.launch(main, wait_kernel("root", fixed ? 20 * us : 150 * us)).record(forked, main);
    for (auto const side : sides) {
      thread.wait(side, forked).launch(side, wait_kernel("branch", 150 * us));
    }
    for (auto const side : sides) {
      auto const joined = program.event();
      thread.record(joined, side).wait(main, joined);
    }
  }
  return one(program.run());
}

/// Uploads, downloads and kernels of independent batches in one stream. Fixed: one for each role.
std::vector<Recording> three_roles(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const up = fixed ? program.stream() : compute;
  auto const down = fixed ? program.stream() : compute;
  for (int i = 0; i < 10; ++i) {
    program.thread()
        .copy(up, CopyDirection::h2d, 10'000'000)
        .launch(compute, wait_kernel("compute", 220 * us))
        .copy(down, CopyDirection::d2h, 10'000'000);
  }
  return one(program.run());
}

/// Uploads and downloads alone, in one stream. Fixed: two.
std::vector<Recording> directions_in_turn(bool fixed) {
  TraceBuilder program;
  auto const up = program.stream();
  auto const down = fixed ? program.stream() : up;
  for (int i = 0; i < 14; ++i) {
    program.thread()
        .copy(down, CopyDirection::d2h, 25'000'000)
        .copy(up, CopyDirection::h2d, 20'000'000);
  }
  return one(program.run());
}

/// A small upload that kernels need stands behind the refresh of a table. Fixed: it comes first.
std::vector<Recording> refresh_ahead(bool fixed) {
  TraceBuilder program;
  auto const refresh = program.stream();
  auto const serve = program.stream(StreamType::non_blocking, -2);
  auto& thread = program.thread();
  for (int i = 0; i < 8; ++i) {
    auto const served = program.event();
    if (!fixed) {
      thread.copy(refresh, CopyDirection::h2d, 30'000'000);
    }
    thread.copy(serve, CopyDirection::h2d, 100'000).launch(serve, wait_kernel("serve", 500 * us));
    if (fixed) {
      thread.copy(refresh, CopyDirection::h2d, 30'000'000);
    }
    thread.record(served, serve).wait(refresh, served);
  }
  return one(program.run());
}

/// An urgent stream's small kernels stand behind a kernel of low priority that fills the device.
/// Fixed: the latter leaves room.
std::vector<Recording> urgent_behind_wide(bool fixed) {
  TraceBuilder program;
  auto const wide = program.stream(StreamType::non_blocking, 0);
  auto const urgent = program.stream(StreamType::non_blocking, -3);
  auto& thread = program.thread();
  for (int i = 0; i < 8; ++i) {
    auto const done = program.event();
    thread
        .launch(wide,
                {.name = "wide",
                 .duration = 900 * us,
                 .blocks = fixed ? 116 : 132,
                 .threads = 1024,
                 .registers = 64})
        .busy(30 * us)
        .launch(urgent,
                {.name = "urgent",
                 .duration = 700 * us,
                 .blocks = 16,
                 .threads = 1024,
                 .registers = 64})
        .record(done, urgent)
        .wait(wide, done);
  }
  return one(program.run());
}

/// Uploads and downloads at the full rate of the bus, in streams of their own.
std::vector<Recording> both_ways_at_full_rate() {
  TraceBuilder program;
  auto const up = program.stream();
  auto const down = program.stream();
  for (int i = 0; i < 20; ++i) {
    program.thread()
        .copy(up, CopyDirection::h2d, 25'000'000)
        .copy(down, CopyDirection::d2h, 25'000'000);
  }
  return one(program.run());
}

/// The event is recorded before the long kernel, which the side stream does not wait for.
std::vector<Recording> event_before_the_work() {
  TraceBuilder program;
  auto const main = program.stream();
  auto const side = program.stream();
  for (int i = 0; i < 15; ++i) {
    auto const produced = program.event();
    auto const joined = program.event();
    program.thread()
        .launch(main, wait_kernel("produce", 20 * us))
        .record(produced, main)
        .launch(main, wait_kernel("long", 300 * us))
        .wait(side, produced)
        .launch(side, wait_kernel("consume", 290 * us))
        .record(joined, side)
        .wait(main, joined);
  }
  return one(program.run());
}

/// Each of three streams waits for the two before it: the wait for the first one is implied by the
/// other, and costs nothing. The work of the streams is long enough to overlap.
std::vector<Recording> implied_waits() {
  TraceBuilder program;
  std::array const streams{program.stream(), program.stream(), program.stream()};
  auto& thread = program.thread();
  for (int i = 0; i < 15; ++i) {
    auto const first = program.event();
    auto const second = program.event();
    thread.launch(streams[0], wait_kernel("read", 100 * us))
        .record(first, streams[0])
        .wait(streams[1], first)
        .launch(streams[1], wait_kernel("shape", 100 * us))
        .record(second, streams[1])
        .wait(streams[2], first)
        .wait(streams[2], second)
        .launch(streams[2], wait_kernel("train", 100 * us));
  }
  return one(program.run());
}

}  // namespace

std::vector<Case> wait_cases() {
  return {
      {"event_behind_two", "", Cause::false_dependency, {}, event_behind_two},
      {"join_behind_log", "", Cause::false_dependency, {}, join_behind_log},
      {"ring_of_waits", "", Cause::false_dependency, {}, ring_of_waits},
      {"diamond", "", Cause::true_dependency, {}, diamond},
      {"three_roles", "", Cause::one_stream_two_roles, {}, three_roles},
      {"directions_in_turn", "", Cause::one_stream_two_roles, {}, directions_in_turn},
      {"refresh_ahead", "", Cause::copy_engine, {}, refresh_ahead},
      {"urgent_behind_wide", "", Cause::priority_cannot_help, {}, urgent_behind_wide},
  };
}

std::vector<Healthy> healthy_wait_cases() {
  return {
      {"both_ways_at_full_rate", both_ways_at_full_rate},
      {"event_before_the_work", event_before_the_work},
      {"implied_waits", implied_waits},
  };
}

}  // namespace msstream::overlap::cases
