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

}  // namespace

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
  };
}

}  // namespace msstream::overlap::cases
