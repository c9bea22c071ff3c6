// SPDX-License-Identifier: Apache-2.0
// More causes, written before the tool was tried on them. Two more were left out, since their fixed
// twins took no less time.
#include "overlap/cases/case.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace msstream::overlap::cases {
namespace {

Kernel later_kernel(std::string name, Ns duration, int blocks = 32) {
  return {.name = std::move(name), .duration = duration, .blocks = blocks};
}

/// Results are downloaded in the stream of the kernels. Fixed: in a stream of their own.
std::vector<Recording> results_between_kernels(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const results = fixed ? program.stream() : compute;
  for (int i = 0; i < 12; ++i) {
    auto const ready = program.event();
    auto& thread = program.thread();
    thread.launch(compute, later_kernel("score", 200 * us));
    if (fixed) {
      thread.record(ready, compute).wait(results, ready);
    }
    thread.copy(results, CopyDirection::d2h, 8'000'000);
  }
  return one(program.run());
}

/// Pinned memory is allocated for each batch. Fixed: once.
std::vector<Recording> pins_each_batch(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  for (int i = 0; i < 8; ++i) {
    if (!fixed) {
      program.thread().allocate(700 * us, "cudaHostAlloc");
    }
    program.thread()
        .copy(compute, CopyDirection::h2d, 1'000'000)
        .launch(compute, later_kernel("step", 250 * us));
  }
  return one(program.run());
}

/// The host waits for an upload before it launches work that does not need it. Fixed: it does not.
std::vector<Recording> waits_for_the_upload_first(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const copies = program.stream();
  for (int i = 0; i < 12; ++i) {
    auto const uploaded = program.event();
    auto& thread = program.thread();
    thread.copy(copies, CopyDirection::h2d, 15'000'000).record(uploaded, copies);
    if (!fixed) {
      thread.sync_event(uploaded);
    }
    thread.launch(compute, later_kernel("other", 250 * us));
  }
  return one(program.run());
}

/// The upload for the next step waits for the tail of the running step, of eight kernels. Fixed: it
/// goes to a second buffer and waits for nothing.
std::vector<Recording> upload_behind_the_step(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const copies = program.stream();
  auto done = program.event();
  for (int i = 0; i < 10; ++i) {
    auto const uploaded = program.event();
    auto& thread = program.thread();
    if (i > 0 && !fixed) {
      thread.wait(copies, done);
    }
    thread.copy(copies, CopyDirection::h2d, 20'000'000)
        .record(uploaded, copies)
        .wait(compute, uploaded);
    for (int j = 0; j < 8; ++j) {
      thread.launch(compute, later_kernel("layer " + std::to_string(j), 60 * us, 100));
    }
    done = program.event();
    thread.record(done, compute);
  }
  return one(program.run());
}

/// Uploads go to the legacy stream, kernels to a blocking one. Fixed: both are non-blocking.
std::vector<Recording> uploads_by_default(bool fixed) {
  TraceBuilder program;
  auto const copies = program.stream(fixed ? StreamType::non_blocking : StreamType::legacy);
  auto const compute = program.stream(fixed ? StreamType::non_blocking : StreamType::blocking);
  for (int i = 0; i < 12; ++i) {
    program.thread()
        .copy(copies, CopyDirection::h2d, 10'000'000)
        .launch(compute, later_kernel("step", 200 * us));
  }
  return one(program.run());
}

/// The host waits for a small download, which stands behind a large one on the engine. Fixed: the
/// small one comes first.
std::vector<Recording> small_download_behind(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const large = program.stream();
  auto const small = program.stream();
  for (int i = 0; i < 10; ++i) {
    auto const computed = program.event();
    auto const read = program.event();
    auto& thread = program.thread();
    thread.launch(compute, later_kernel("step", 300 * us, 100))
        .record(computed, compute)
        .wait(large, computed)
        .wait(small, computed);
    if (!fixed) {
      thread.copy(large, CopyDirection::d2h, 20'000'000);
    }
    thread.copy(small, CopyDirection::d2h, 10'000).record(read, small);
    if (fixed) {
      thread.copy(large, CopyDirection::d2h, 20'000'000);
    }
    thread.sync_event(read);
  }
  return one(program.run());
}

/// The host asks again and again whether a step has ended, and prepares the next one after it.
/// Fixed: it prepares meanwhile.
std::vector<Recording> polls_for_the_step(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  for (int i = 0; i < 10; ++i) {
    auto const ended = program.event();
    auto& thread = program.thread();
    thread.launch(compute, later_kernel("step", 200 * us)).record(ended, compute);
    if (!fixed) {
      thread.poll_event(ended, 20 * us);
    }
    thread.busy(90 * us);
  }
  return one(program.run());
}

/// Uploads into two buffers beside the kernels of the batch before: as much at once as there can
/// be, whichever side is longer.
std::vector<Recording> double_buffers(std::int64_t bytes) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const uploads = program.stream();
  std::vector<EventNumber> trained;
  for (std::size_t batch = 0; batch < 8; ++batch) {
    auto const uploaded = program.event();
    auto& thread = program.thread();
    if (batch >= 2) {
      thread.wait(uploads, trained[batch - 2]);
    }
    trained.push_back(program.event());
    thread.copy(uploads, CopyDirection::h2d, bytes)
        .record(uploaded, uploads)
        .wait(compute, uploaded)
        .launch(compute, later_kernel("train", 200 * us, 100))
        .record(trained.back(), compute);
  }
  return one(program.run());
}

std::vector<Recording> double_buffers_of_long_uploads() {
  return double_buffers(13'000'000);
}
std::vector<Recording> double_buffers_of_short_uploads() {
  return double_buffers(5'000'000);
}

/// A branch needs the first kernel of the main stream, and is forked behind five more, beside which
/// it could run. Fixed: it is forked right after the first one.
std::vector<Recording> fork_behind_five(bool fixed) {
  TraceBuilder program;
  auto const main = program.stream();
  auto const side = program.stream();
  for (int i = 0; i < 12; ++i) {
    auto const forked = program.event();
    auto const joined = program.event();
    auto& thread = program.thread();
    thread.launch(main, later_kernel("produce", 20 * us));
    if (fixed) {
      thread.record(forked, main).wait(side, forked);
    }
    for (std::string const part : {"a", "b", "c", "d", "e"}) {
      thread.launch(main, later_kernel("main " + part, 50 * us));
    }
    if (!fixed) {
      thread.record(forked, main).wait(side, forked);
    }
    for (std::string const part : {"a", "b", "c", "d", "e"}) {
      thread.launch(side, later_kernel("side " + part, 50 * us));
    }
    thread.record(joined, side).wait(main, joined);
  }
  return one(program.run());
}

/// A branch is forked right after its long producer, and runs beside other work of the main stream
/// until the two join: all waits are needed. Fixed: the producer is short.
std::vector<Recording> fork_behind_the_producer(bool fixed) {
  TraceBuilder program;
  auto const main = program.stream();
  auto const side = program.stream();
  for (int i = 0; i < 10; ++i) {
    auto const forked = program.event();
    auto const joined = program.event();
    program.thread()
        .launch(main, later_kernel("bias", 20 * us))
        .launch(main, later_kernel("attention", fixed ? 20 * us : 200 * us))
        .record(forked, main)
        .wait(side, forked)
        .launch(side, later_kernel("expert 1", 100 * us))
        .launch(main, later_kernel("expert 0", fixed ? 140 * us : 90 * us))
        .record(joined, side)
        .wait(main, joined);
  }
  return one(program.run());
}

/// Streams share hardware queues, and get their kernels in turn: none stands behind another.
std::vector<Recording> queues_in_turn() {
  Gpu gpu;
  gpu.channels = 2;
  TraceBuilder program(gpu);
  std::vector<StreamNumber> streams;
  for (int i = 0; i < 8; ++i) {
    streams.push_back(program.stream());
  }
  for (int j = 0; j < 12; ++j) {
    for (auto const stream : streams) {
      program.thread().launch(stream, later_kernel("score", 300 * us, 6));
    }
  }
  return one(program.run());
}

/// Streams share hardware queues, and the kernels that run leave no room for others.
std::vector<Recording> full_beside_shared_queues() {
  Gpu gpu;
  gpu.channels = 2;
  TraceBuilder program(gpu);
  for (int i = 0; i < 4; ++i) {
    auto const stream = program.stream();
    for (int j = 0; j < 4; ++j) {
      program.thread().launch(stream, later_kernel("wide", 300 * us, 132 * 4));
    }
  }
  return one(program.run());
}

/// Replicas answer by graphs of one number, at once in their streams.
std::vector<Recording> graphs_at_once() {
  TraceBuilder program;
  std::vector<StreamNumber> const streams{program.stream(), program.stream(), program.stream()};
  for (int i = 0; i < 20; ++i) {
    for (auto const stream : streams) {
      program.thread().launch_graph(stream,
                                    {{later_kernel("embed", 30 * us, 8), {}},
                                     {later_kernel("dense", 60 * us, 8), {0}},
                                     {later_kernel("score", 20 * us, 8), {1}}},
                                    8 * us,
                                    5);
    }
  }
  return one(program.run());
}

/// Two branches of kernels that each have many waves of blocks: nothing overlaps, and nothing would
/// be gained if it did. Fixed, and as slow: kernels that take half of the device.
std::vector<Recording> branches_of_many_waves(bool fixed) {
  TraceBuilder program;
  auto const left = program.stream();
  auto const right = program.stream();
  for (int i = 0; i < 10; ++i) {
    for (auto const stream : {left, right}) {
      program.thread().launch(stream,
                              {.name = "branch",
                               .duration = fixed ? 395 * us : 200 * us,
                               .blocks = fixed ? 60 : 132 * 2 * 12,
                               .threads = 1024});
    }
  }
  return one(program.run());
}

/// A frame is uploaded, worked on and downloaded in one stream. Fixed: a stream for each, and
/// events between them.
std::vector<Recording> frames_in_one_stream(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const up = fixed ? program.stream() : compute;
  auto const down = fixed ? program.stream() : compute;
  for (int i = 0; i < 12; ++i) {
    auto const uploaded = program.event();
    auto const computed = program.event();
    auto& thread = program.thread();
    thread.copy(up, CopyDirection::h2d, 15'000'000);
    if (fixed) {
      thread.record(uploaded, up).wait(compute, uploaded);
    }
    for (std::string const part : {"detect", "track", "draw"}) {
      thread.launch(compute, later_kernel(part, 130 * us, 60));
    }
    if (fixed) {
      thread.record(computed, compute).wait(down, computed);
    }
    thread.copy(down, CopyDirection::d2h, 12'000'000);
  }
  return one(program.run());
}

}  // namespace

std::vector<Healthy> healthy_later_cases() {
  return {
      {"double_buffers_of_long_uploads", double_buffers_of_long_uploads},
      {"double_buffers_of_short_uploads", double_buffers_of_short_uploads},
      {"queues_in_turn", queues_in_turn},
      {"full_beside_shared_queues", full_beside_shared_queues},
      {"graphs_at_once", graphs_at_once},
  };
}

std::vector<Case> later_cases() {
  return {
      {"results_between_kernels", "", Cause::one_stream_two_roles, {}, results_between_kernels},
      {"pins_each_batch", "", Cause::driver_allocation, {}, pins_each_batch},
      {"waits_for_the_upload_first",
       "",
       Cause::host_synchronization,
       {},
       waits_for_the_upload_first},
      {"uploads_by_default", "", Cause::legacy_stream, {}, uploads_by_default},
      {"small_download_behind", "", Cause::copy_engine, {}, small_download_behind},
      {"polls_for_the_step", "", Cause::host_synchronization, {}, polls_for_the_step},
      {"fork_behind_five", "", Cause::false_dependency, {}, fork_behind_five},
      {"fork_behind_the_producer", "", Cause::true_dependency, {}, fork_behind_the_producer},
      {"branches_of_many_waves", "", Cause::multiprocessors_full, {}, branches_of_many_waves},
      {"frames_in_one_stream", "", Cause::one_stream_two_roles, {}, frames_in_one_stream},
      {"upload_behind_the_step", "", Cause::false_dependency, {}, upload_behind_the_step},
  };
}

}  // namespace msstream::overlap::cases
