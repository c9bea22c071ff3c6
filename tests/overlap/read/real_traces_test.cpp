// SPDX-License-Identifier: Apache-2.0
// Recorded traces of other people's programs, and what is known about them.
#include "overlap/read/written_files.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace msstream::overlap {
namespace {

std::filesystem::path real_trace(std::string_view name) {
  char const* folder = std::getenv("MSSTREAM_TEST_DATA");
  return std::filesystem::path(folder != nullptr ? folder : MSSTREAM_DATA_FOLDER) / "traces" / name;
}

#define MSSTREAM_NEEDS_TRACES()                                                     \
  if (!std::filesystem::exists(real_trace(""))) {                                   \
    GTEST_SKIP() << "no " << real_trace("").string() << ": set MSSTREAM_TEST_DATA"; \
  }

Recording real_recording(std::string_view name) {
  auto recordings = read(real_trace(name));
  EXPECT_EQ(recordings.size(), 1U);
  return std::move(recordings.at(0));
}

/// Returns how many copies come from or go to pageable memory.
auto pageable(Recording const& recording, CopyDirection direction) {
  return std::ranges::count_if(recording.activities, [direction](Activity const& activity) {
    return activity.kind == ActivityKind::copy && activity.direction == direction &&
           (activity.source == MemoryKind::pageable || activity.target == MemoryKind::pageable);
  });
}

auto count_syncs(Recording const& recording, SyncKind kind) {
  return std::ranges::count(recording.syncs, kind, &Sync::kind);
}

std::set<std::int64_t> busy_streams(Recording const& recording) {
  std::set<std::int64_t> numbers;
  for (auto const& activity : recording.activities) {
    numbers.insert(recording.streams.at(activity.stream).number);
  }
  return numbers;
}

/// Returns the shares of a window in which no, one, two … activities run.
std::vector<double> shares(Recording const& recording, Interval window, bool kernels_only) {
  std::map<Ns, int> edges;
  for (auto const& activity : recording.activities) {
    auto const begin = std::max(activity.time.begin, window.begin);
    auto const end = std::min(activity.time.end, window.end);
    if (begin < end && (!kernels_only || activity.kind == ActivityKind::kernel)) {
      ++edges[begin];
      --edges[end];
    }
  }
  std::vector<double> out(8);
  auto since = window.begin;
  std::size_t running = 0;
  for (auto const& [time, change] : edges) {
    out.at(running) += static_cast<double>(time - since);
    since = time;
    running = static_cast<std::size_t>(static_cast<int>(running) + change);
  }
  out[0] += static_cast<double>(window.end - since);
  for (auto& share : out) {
    share /= static_cast<double>(window.length());
  }
  return out;
}

Interval step_on_device(Recording const& recording) {
  auto const found = std::ranges::find_if(recording.ranges, [&](Range const& range) {
    return range.kind == RangeKind::on_device &&
           recording.names[range.name].starts_with("ProfilerStep#");
  });
  EXPECT_NE(found, recording.ranges.end());
  return found == recording.ranges.end() ? *recording.extent() : found->time;
}

TEST(RealTraces, waits_of_several_streams) {
  MSSTREAM_NEEDS_TRACES();
  auto const recording = real_recording("kineto/event_sync_multi_stream.json.gz");
  EXPECT_EQ(busy_streams(recording), (std::set<std::int64_t>{20, 24, 28}));
  EXPECT_TRUE(recording.has_syncs);
  auto const wait = std::ranges::find(recording.syncs, SyncKind::wait, &Sync::kind);
  ASSERT_NE(wait, recording.syncs.end());
  EXPECT_EQ(recording.streams.at(wait->stream).number, 24);
  EXPECT_EQ(recording.streams.at(wait->record_stream).number, 20);
  EXPECT_EQ(recording.calls.at(wait->record_call).kind, CallKind::record_event);
  EXPECT_EQ(count_syncs(recording, SyncKind::event), 3);
  auto const event_sync = real_recording("kineto/event_sync.json.gz");
  EXPECT_EQ(count_syncs(event_sync, SyncKind::event), 2);
}

TEST(RealTraces, alexnet) {
  MSSTREAM_NEEDS_TRACES();
  auto const recording = real_recording("kineto/alexnet.json.gz");
  EXPECT_EQ(pageable(recording, CopyDirection::h2d), 16);
  EXPECT_EQ(count_syncs(recording, SyncKind::stream), 16);
  EXPECT_EQ(std::ranges::count(recording.calls, CallKind::allocate, &Call::kind), 25);
  EXPECT_EQ(recording.clock_step, 1000);
}

TEST(RealTraces, recommender) {
  MSSTREAM_NEEDS_TRACES();
  auto const recording = real_recording("kineto/recsys_rank0.json.gz");
  EXPECT_EQ(recording.rank, 0);
  EXPECT_EQ(recording.ranks, 16);
  EXPECT_EQ(recording.activities.size(), 6080U + 1390U + 277U);
  EXPECT_EQ(recording.calls.size(), 33'924U);
  EXPECT_EQ(busy_streams(recording).size(), 6U);
  EXPECT_EQ(pageable(recording, CopyDirection::h2d), 45);
  EXPECT_EQ(count_syncs(recording, SyncKind::wait), 425);
  std::set<Index> of_collectives;
  for (auto const& activity : recording.activities) {
    if (activity.collective != kNone) {
      of_collectives.insert(activity.stream);
    }
  }
  EXPECT_EQ(of_collectives.size(), 3U);
  EXPECT_NEAR(shares(recording, *recording.extent(), false)[0], 0.64, 0.01);
}

TEST(RealTraces, eight_gpus) {
  MSSTREAM_NEEDS_TRACES();
  auto const recording = real_recording("kineto/eight_a100_rank.json.gz");
  EXPECT_EQ(busy_streams(recording).size(), 4U);
  EXPECT_EQ(recording.rank, 3);
  EXPECT_EQ(recording.devices.at(0).number, 3);
  EXPECT_EQ(pageable(recording, CopyDirection::d2h), 60);
  EXPECT_EQ(count_syncs(recording, SyncKind::stream), 60);
  auto const at_once = shares(recording, *recording.extent(), false);
  EXPECT_NEAR(at_once[0], 0.16, 0.015);
  EXPECT_NEAR(at_once[1], 0.61, 0.015);
  EXPECT_NEAR(at_once[2], 0.20, 0.015);
}

TEST(RealTraces, data_parallel_training) {
  MSSTREAM_NEEDS_TRACES();
  auto const recording = real_recording("kineto/ddp_two_a100.json.gz");
  EXPECT_EQ(recording.collectives.size(), 21U);
  EXPECT_EQ(recording.collectives[0].ranks, 2);
  EXPECT_EQ(recording.names[recording.collectives[0].name], "allreduce");
  EXPECT_GT(recording.collectives[0].bytes, 0);
  EXPECT_EQ(recording.clock_step, 1);
  EXPECT_EQ(busy_streams(real_recording("kineto/five_streams.json.gz")).size(), 5U);
}

TEST(RealTraces, busy_shares_of_eager_programs) {
  MSSTREAM_NEEDS_TRACES();
  struct Case {
    std::string_view file;
    double busy;
  };
  constexpr Case cases[] = {
      {"kineto/h100_Qwen1.5-0.5B-Chat.json.gz", 0.914395852127733},
      {"kineto/h100_bert-small-uncased.json.gz", 0.07918413644598668},
      {"kineto/h100_detection.json.gz", 0.16208123326887694},
  };
  for (auto const& [file, busy] : cases) {
    auto const recording = real_recording(file);
    EXPECT_EQ(busy_streams(recording).size(), 1U);
    EXPECT_NEAR(1 - shares(recording, step_on_device(recording), false)[0], busy, busy * 0.001)
        << file;
  }
  auto const b200 = real_recording("kineto/b200_eager.json.gz");
  EXPECT_EQ(b200.overheads.size(), 9U);
  EXPECT_EQ(b200.activities.size(), 929U);
}

TEST(RealTraces, files_that_lack_fields) {
  MSSTREAM_NEEDS_TRACES();
  EXPECT_THROW((void)read(real_trace("kineto/no_rank.json.gz")), std::runtime_error);
  auto const rocm = real_recording("kineto/rocm.json.gz");
  EXPECT_EQ(rocm.activities.size(), 16U);
  EXPECT_EQ(std::ranges::count(rocm.calls, CallKind::launch, &Call::kind), 14);
  EXPECT_EQ(rocm.activities[0].direction, CopyDirection::h2d);
  EXPECT_NE(rocm.activities[0].call, kNone);
  EXPECT_THAT(rocm.source, ::testing::HasSubstr("ROCm"));
}

#ifdef MSSTREAM_HAS_SQLITE
TEST(RealTraces, exports_of_nsight_systems) {
  MSSTREAM_NEEDS_TRACES();
  auto const recordings = read(real_trace("nsys/h100_2gpu_1s.sqlite"));
  ASSERT_EQ(recordings.size(), 2U);
  std::ptrdiff_t kernels = 0;
  std::ptrdiff_t copies = 0;
  std::ptrdiff_t uploads = 0;
  std::ptrdiff_t waits = 0;
  for (auto const& recording : recordings) {
    kernels += std::ranges::count(recording.activities, ActivityKind::kernel, &Activity::kind);
    copies += std::ranges::count(recording.activities, ActivityKind::copy, &Activity::kind);
    uploads += pageable(recording, CopyDirection::h2d);
    waits += count_syncs(recording, SyncKind::wait);
    EXPECT_EQ(recording.devices.size(), 1U);
    EXPECT_EQ(recording.source, "Nsight Systems 2026.2.1");
  }
  EXPECT_EQ(kernels, 3442);
  EXPECT_EQ(copies, 904);
  EXPECT_EQ(uploads, 4);
  EXPECT_EQ(waits, 236);
  auto const mock = real_recording("nsys/mock.sqlite");
  EXPECT_EQ(mock.devices.at(0).name, "NVIDIA GeForce RTX 3080");
  EXPECT_EQ(mock.devices[0].sms, 68);
  EXPECT_EQ(mock.devices[0].threads_per_sm, 1536);
  EXPECT_EQ(mock.streams.at(0).type, StreamType::legacy);
  // The export calls this cudaStreamSynchronize() a wait for an event.
  EXPECT_EQ(mock.syncs.at(0).kind, SyncKind::stream);
  auto const healthy = real_recording("nsys/healthy_1pct.sqlite");
  EXPECT_EQ(healthy.activities.size(), 400U);
  EXPECT_EQ(healthy.activities[0].call, 0U);
}
#endif

}  // namespace
}  // namespace msstream::overlap
