// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fuzz.hpp"
#include "overlap/read/read.hpp"
#include "scratch_folder.hpp"

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::fuzz {

template <class Element>
void expect_times(std::vector<Element> const& elements) {
  overlap::Ns last = 0;
  for (auto const& element : elements) {
    expect(element.time.begin >= last, "not in order of time, or before 0");
    expect(element.time.end >= element.time.begin, "ends before it begins");
    last = element.time.begin;
  }
}

inline void expect_place(overlap::Index place, std::size_t count, std::string_view what) {
  expect(place == overlap::kNone || place < count, "a {} that does not exist", what);
}

/// Ends the process if a part of the recording refers to a part that does not exist.
inline void expect_whole(overlap::Recording const& recording) {
  expect(!recording.activities.empty(), "no work of a device");
  expect_times(recording.activities);
  expect_times(recording.calls);
  expect_times(recording.syncs);
  expect_times(recording.overheads);
  expect_times(recording.ranges);
  auto const streams = recording.streams.size();
  auto const calls = recording.calls.size();
  auto const threads = recording.threads.size();
  auto const activities = recording.activities.size();
  for (auto const& stream : recording.streams) {
    expect(stream.device < recording.devices.size(), "a stream without a device");
    expect(stream.name < recording.names.size(), "a stream's name");
  }
  for (auto const& activity : recording.activities) {
    expect(activity.stream < streams, "work without a stream");
    expect(activity.name < recording.names.size(), "work's name");
    expect_place(activity.call, calls, "call");
    expect_place(activity.shape, recording.shapes.size(), "shape");
    expect_place(activity.collective, recording.collectives.size(), "collective");
  }
  for (auto const& call : recording.calls) {
    expect(call.thread < threads, "a call without a thread");
  }
  for (auto const& sync : recording.syncs) {
    expect_place(sync.call, calls, "call");
    expect_place(sync.record_call, calls, "call");
    expect_place(sync.stream, streams, "stream");
    expect_place(sync.record_stream, streams, "stream");
  }
  for (auto const& record : recording.event_records) {
    expect_place(record.call, calls, "call");
    expect_place(record.stream, streams, "stream");
  }
  for (auto const& dependency : recording.dependencies) {
    expect(dependency.before < activities && dependency.after < activities, "a dependency");
  }
  for (auto const& range : recording.ranges) {
    expect_place(range.thread, threads, "thread");
    expect_place(range.stream, streams, "stream");
  }
  for (auto const& overhead : recording.overheads) {
    expect_place(overhead.thread, threads, "thread");
  }
}

/// Writes a file with the bytes and reads it.
inline void read_recordings(std::string_view bytes) {
  static ScratchFolder const folder;
  auto const file = folder.write("trace", bytes);
  try {
    for (auto const& recording : overlap::read(file)) {
      expect_whole(recording);
    }
  } catch (std::runtime_error const& error) {
    std::string_view const message = error.what();
    expect(message.starts_with(file.string()), "no file in: {}", message);
  }
}

}  // namespace msstream::fuzz
