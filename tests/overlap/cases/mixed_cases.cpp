// SPDX-License-Identifier: Apache-2.0
// Two causes at once, programs in which nothing is wrong, and recordings that cannot tell.
#include "overlap/cases/case.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace msstream::overlap::cases {
namespace {

Kernel mixed_kernel(std::string name, Ns duration, int blocks = 32) {
  return {.name = std::move(name), .duration = duration, .blocks = blocks};
}

/// Uploads from pageable memory, and a synchronisation after each step that costs less.
std::vector<Recording> pageable_and_synchronised(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const copies = program.stream();
  for (int i = 0; i < 6; ++i) {
    auto const uploaded = program.event();
    program.thread()
        .copy(copies,
              CopyDirection::h2d,
              8'000'000,
              fixed ? MemoryKind::pinned : MemoryKind::pageable)
        .record(uploaded, copies)
        .wait(compute, uploaded)
        .launch(compute, mixed_kernel("forward", 200 * us, 100))
        .launch(compute, mixed_kernel("backward", 200 * us, 100));
    if (!fixed) {
      program.thread().sync_stream(compute).busy(100 * us);
    }
  }
  return one(program.run());
}

/// Allocations in each step, and kernels of the whole device in two streams.
std::vector<Recording> allocating_and_full(bool fixed) {
  TraceBuilder program;
  auto const a = program.stream();
  auto const b = program.stream();
  for (int i = 0; i < 6; ++i) {
    if (!fixed) {
      program.thread().allocate(900 * us);
    }
    program.thread()
        .launch(a, mixed_kernel("gemm", 200 * us, fixed ? 60 : 132 * 8))
        .launch(b, mixed_kernel("gemm", 200 * us, fixed ? 60 : 132 * 8));
  }
  return one(program.run());
}

/// The legacy stream orders two streams, and the host is busy between rounds for less.
std::vector<Recording> legacy_and_busy(bool fixed) {
  TraceBuilder program;
  auto const legacy = program.stream(fixed ? StreamType::non_blocking : StreamType::legacy);
  auto const side = program.stream(fixed ? StreamType::non_blocking : StreamType::blocking);
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 3; ++j) {
      program.thread()
          .launch(legacy, mixed_kernel("main", 200 * us))
          .launch(side, mixed_kernel("side", 200 * us));
    }
    program.thread().busy(fixed ? 0 : 1600 * us);
  }
  return one(program.run());
}

/// opencv/opencv 11149: kernels of five streams one after the other, in a profiler's picture
/// without calls, waits, types of streams or launch shapes. Here they wait for events. Nobody can
/// tell that from the picture. Fixed: all is recorded, and nothing is in order without need.
std::vector<Recording> picture_without_calls(bool fixed) {
  TraceBuilder program;
  std::vector<StreamNumber> streams;
  for (int i = 0; i < 5; ++i) {
    streams.push_back(program.stream());
  }
  auto event = program.event();
  for (int i = 0; i < 15; ++i) {
    auto const stream = streams[static_cast<std::size_t>(i) % 5];
    if (i > 0 && !fixed) {
      program.thread().wait(stream, event);
    }
    program.thread().launch(stream, mixed_kernel("convolve", 100 * us, 24));
    event = program.event();
    program.thread().record(event, stream);
  }
  return one(program.run(fixed ? Hidden{}
                               : Hidden{.calls = true,
                                        .syncs = true,
                                        .channels = true,
                                        .stream_types = true,
                                        .shapes = true,
                                        .overheads = true}));
}

/// NVIDIA/cutlass 57: products of two threads one after the other, whose grids fit beside each
/// other. Calls are recorded, but neither waits nor hardware queues nor types of streams.
std::vector<Recording> threads_in_order(bool fixed) {
  TraceBuilder program;
  auto const a = program.stream();
  auto const b = program.stream();
  auto event = program.event();
  for (int i = 0; i < 16; ++i) {
    auto const stream = i % 2 == 0 ? a : b;
    if (i > 0 && !fixed) {
      program.thread().wait(stream, event);
    }
    program.thread().launch(stream, mixed_kernel("gemm", 150 * us, 24));
    event = program.event();
    program.thread().record(event, stream);
  }
  return one(program.run(fixed ? Hidden{}
                               : Hidden{.syncs = true, .channels = true, .stream_types = true}));
}

/// Gaps of a program whose calls were not recorded: host or driver, nobody can tell.
std::vector<Recording> gaps_without_calls(bool fixed) {
  TraceBuilder program;
  auto const a = program.stream();
  for (int i = 0; i < 12; ++i) {
    program.thread().launch(a, mixed_kernel("gemm", 100 * us, 132 * 8));
    if (!fixed) {
      program.thread().busy(250 * us);
    }
  }
  return one(program.run(fixed ? Hidden{} : Hidden{.calls = true, .overheads = true}));
}

/// One busy stream.
std::vector<Recording> one_busy_stream() {
  TraceBuilder program;
  auto const stream = program.stream();
  for (int i = 0; i < 60; ++i) {
    program.thread().launch(stream, mixed_kernel("layer", 80 * us, 132 * 8));
  }
  return one(program.run());
}

/// Uploads from pinned memory beside kernels, two batches ahead.
std::vector<Recording> pipelined_uploads() {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const copies = program.stream();
  for (int i = 0; i < 20; ++i) {
    auto const uploaded = program.event();
    program.thread()
        .copy(copies, CopyDirection::h2d, 1'000'000)
        .record(uploaded, copies)
        .wait(compute, uploaded)
        .launch(compute, mixed_kernel("forward", 150 * us, 132 * 8))
        .launch(compute, mixed_kernel("backward", 250 * us, 132 * 8));
  }
  return one(program.run());
}

/// Branches of graphs side by side.
std::vector<Recording> parallel_graphs() {
  TraceBuilder program;
  auto const stream = program.stream();
  for (int i = 0; i < 12; ++i) {
    program.thread().launch_graph(stream,
                                  {{mixed_kernel("fork", 30 * us), {}},
                                   {mixed_kernel("left", 200 * us), {0}},
                                   {mixed_kernel("right", 195 * us), {0}},
                                   {mixed_kernel("join", 30 * us), {1, 2}}});
  }
  return one(program.run());
}

/// Two streams beside each other all the time, and one synchronisation at the end.
std::vector<Recording> two_streams_beside() {
  TraceBuilder program;
  auto const a = program.stream();
  auto const b = program.stream();
  for (int i = 0; i < 30; ++i) {
    program.thread()
        .launch(a, mixed_kernel("left", 100 * us))
        .launch(b, mixed_kernel("right", 100 * us));
  }
  program.thread().sync_device();
  return one(program.run());
}

}  // namespace

std::vector<Case> paired_cases() {
  return {
      {"pageable_and_synchronised",
       "",
       Cause::pageable_copy,
       Cause::host_synchronization,
       pageable_and_synchronised},
      {"allocating_and_full",
       "",
       Cause::driver_allocation,
       Cause::multiprocessors_full,
       allocating_and_full},
      {"legacy_and_busy", "", Cause::legacy_stream, Cause::host_busy, legacy_and_busy},
  };
}

std::vector<Case> unknown_cases() {
  return {
      {"picture_without_calls", "opencv/opencv 11149", Cause::unknown, {}, picture_without_calls},
      {"threads_in_order", "NVIDIA/cutlass 57", Cause::unknown, {}, threads_in_order},
      {"gaps_without_calls", "", Cause::unknown, {}, gaps_without_calls},
  };
}

std::vector<Healthy> healthy_cases() {
  return {
      {"one_busy_stream", one_busy_stream},
      {"pipelined_uploads", pipelined_uploads},
      {"parallel_graphs", parallel_graphs},
      {"two_streams_beside", two_streams_beside},
  };
}

}  // namespace msstream::overlap::cases
