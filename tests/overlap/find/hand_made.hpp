// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

#include <string>
#include <string_view>

namespace msstream::overlap {

/// Writes a recording by hand: every time is given in us.
class HandMade {
 public:
  explicit HandMade(int streams = 2) {
    recording.devices.push_back({.number = 0,
                                 .name = "GPU",
                                 .major = 9,
                                 .minor = 0,
                                 .sms = 132,
                                 .threads_per_sm = 2048,
                                 .blocks_per_sm = 32,
                                 .registers_per_sm = 65536,
                                 .shared_bytes_per_sm = 233472});
    for (int number = 0; number < streams; ++number) {
      recording.streams.push_back(
          {.context = 1, .number = number, .type = StreamType::non_blocking, .priority = {}});
    }
    recording.threads.push_back({.process = 1, .number = 1});
    recording.shapes.push_back({.grid = {8, 1, 1}, .block = {128, 1, 1}});  // small
    recording.shapes.push_back(
        {.grid = {100'000, 1, 1}, .block = {256, 1, 1}});  // fills the device
    recording.has_calls = true;
    recording.has_syncs = true;
  }

  Index call(CallKind kind, double begin, double end, std::string_view name = "call") {
    recording.calls.push_back({ns(begin, end), recording.names.id_of(name), 0, kind});
    return static_cast<Index>(recording.calls.size() - 1);
  }
  /// A kernel that is launched in [issued, issued + 2].
  Index kernel(Index stream, double issued, double begin, double end, Index shape = 0) {
    Activity activity;
    activity.time = ns(begin, end);
    activity.name = recording.names.id_of("kernel " + std::to_string(recording.activities.size()));
    activity.stream = stream;
    activity.call = call(CallKind::launch, issued, issued + 2);
    activity.shape = shape;
    recording.activities.push_back(activity);
    return static_cast<Index>(recording.activities.size() - 1);
  }
  Index copy(Index stream, CopyDirection direction, double issued, double begin, double end) {
    auto const i = kernel(stream, issued, begin, end);
    auto& activity = recording.activities[i];
    activity.kind = ActivityKind::copy;
    activity.direction = direction;
    activity.shape = kNone;
    activity.bytes = 1'000'000;
    recording.calls[activity.call].kind = CallKind::copy;
    return i;
  }
  /// Makes `stream` wait at `time` for what `recorded` has been given by `record_time`.
  void wait(Index stream, Index recorded, double record_time, double time) {
    auto const record = call(CallKind::record_event, record_time, record_time + 0.5);
    recording.event_records.push_back({record, recorded, 1});
    auto const made = call(CallKind::wait_event, time, time + 0.5);
    recording.syncs.push_back(
        {ns(time, time + 0.5), SyncKind::wait, made, stream, record, recorded});
  }

  Recording recording;

 private:
  static Interval ns(double begin, double end) {
    return {static_cast<Ns>(begin * 1'000), static_cast<Ns>(end * 1'000)};
  }
};

}  // namespace msstream::overlap
