// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/show/explained.hpp"

#include <string>
#include <utility>
#include <vector>

namespace msstream::overlap {

/// A small recording with its report, made by hand: a copy on stream 20, then a kernel on stream 7
/// that waits for it by an event, and a second kernel late. Times in µs:
///
///     stream 7           [kernel 40..60]          [late 80..100]
///     stream 20   [copy 10..30]
///
/// The window is 0 to 100 µs: idle 10 (launch-bound), alone 20, idle 10 (host-busy), alone 20,
/// idle 20 (host-busy), alone 20.
struct Example {
  Recording recording;
  Report report;

  explicit Example(std::string const& kernel = "kernel", std::string const& note = "a note") {
    auto& names = recording.names;
    recording.origin = "traces/example.json";
    recording.source = "Kineto";
    recording.program = "train.py";
    recording.devices.push_back({.number = 3, .name = "NVIDIA H100", .sms = 132});
    recording.streams.resize(2);
    recording.streams[0].number = 7;
    recording.streams[0].type = StreamType::legacy;
    recording.streams[1].number = 20;
    recording.streams[1].name = names.id_of("copies");
    recording.threads.push_back({.process = 1, .number = 42, .name = names.id_of("main")});
    recording.shapes.push_back({.grid = {8, 1, 1}, .block = {128, 1, 1}});
    auto const call = [&](Ns begin, Ns end, char const* name, CallKind kind) {
      recording.calls.push_back({{begin * 1000, end * 1000}, names.id_of(name), 0, kind});
    };
    call(0, 9, "cudaMemcpyAsync", CallKind::copy);
    call(10, 11, "cudaEventRecord", CallKind::record_event);
    call(12, 13, "cudaStreamWaitEvent", CallKind::wait_event);
    call(14, 38, "cudaLaunchKernel", CallKind::launch);
    call(70, 79, "cudaLaunchKernel", CallKind::launch);
    recording.activities.push_back({.time = {10'000, 30'000},
                                    .name = names.id_of("Memcpy HtoD"),
                                    .stream = 1,
                                    .kind = ActivityKind::copy,
                                    .direction = CopyDirection::h2d,
                                    .call = 0,
                                    .bytes = 4096});
    recording.activities.push_back({.time = {40'000, 60'000},
                                    .name = names.id_of(kernel),
                                    .stream = 0,
                                    .call = 3,
                                    .shape = 0});
    recording.activities.push_back(
        {.time = {80'000, 100'000}, .name = names.id_of("late"), .stream = 0, .call = 4});
    recording.syncs.push_back({.time = {12'000, 13'000},
                               .kind = SyncKind::wait,
                               .call = 2,
                               .stream = 0,
                               .record_call = 1,
                               .record_stream = 1});
    recording.ranges.push_back({.time = {0, 50'000},
                                .name = names.id_of("step"),
                                .thread = 0,
                                .kind = RangeKind::annotation});
    recording.ranges.push_back({.time = {60'000, 90'000},
                                .name = names.id_of("step"),
                                .thread = 0,
                                .kind = RangeKind::annotation});

    report.window = {0, 100'000};
    report.verdict = "2 streams, host-busy: 60% busy";
    report.notes.push_back(note);
    auto& device = report.devices.emplace_back();
    using enum TimeClass;
    device.spans = {{{0, 10'000}, idle, Cause::launch_bound},
                    {{10'000, 30'000}, alone, {}},
                    {{30'000, 40'000}, idle, Cause::host_busy},
                    {{40'000, 60'000}, alone, {}},
                    {{60'000, 80'000}, idle, Cause::host_busy},
                    {{80'000, 100'000}, alone, {}}};
    device.times = {
        {alone, {}, 60'000}, {idle, Cause::launch_bound, 10'000}, {idle, Cause::host_busy, 30'000}};
    device.at_once = {40'000, 60'000};
    device.busy = 60'000;
    device.critical_path = {0, 1, 2};
    Finding busy;
    busy.cause = Cause::host_busy;
    busy.summary = "The host was busy before " + kernel + ".";
    busy.lost = 30'000;
    busy.intervals = {{30'000, 40'000}, {60'000, 80'000}};
    busy.occurrences = 2;
    busy.evidence.push_back({"20 us idle before late", {60'000, 80'000}, 2, 1, 4});
    busy.advice = "Prepare input ahead.";
    busy.prediction = Prediction{100'000, 70'000};
    busy.overlaps_with = {1};
    Finding launch;
    launch.cause = Cause::launch_bound;
    launch.summary = "Launches take long.";
    launch.lost = 10'000;
    launch.intervals = {{0, 10'000}};
    launch.occurrences = 1;
    launch.overlaps_with = {0};
    report.findings = {std::move(busy), std::move(launch)};
  }

  [[nodiscard]] Explained explained() const { return {recording, report}; }
  [[nodiscard]] std::vector<Explained> all() const { return {explained()}; }
};

/// A name that would do harm where it is not escaped.
inline std::string hostile_name() {
  return "</script><script>window.hostile = 1</script>\"'&<img src=x onerror=hostile()> "
         "\x1b[31m \xE2\x80\xAE\xD7\x90\xD7\x91 \xFF \n \x01 ${1} `x` -->";
}

}  // namespace msstream::overlap
