// SPDX-License-Identifier: Apache-2.0
#include "overlap/read/written_files.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace msstream::overlap {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::trace_of;
using KinetoTest = testing::ReadTest;

constexpr auto kKernel =
    R"({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1767189312000100.25, "dur": 2.5,
  "args": {"device": 0, "context": 1, "stream": 7, "correlation": 5, "registers per thread": 90, "shared memory": 49152,
  "blocks per SM": 0.5, "grid": [64, 2, 1], "block": [128, 1, 1], "priority": -1, "channel": 3, "graph id": 4,
  "graph node id": 17179869185}})";

TEST_F(KinetoTest, a_kernel_has_what_the_file_says) {
  auto const recording = read_one(trace_of(
      std::string(kKernel) +
          R"(, {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel_v7000", "pid": 99, "tid": 98,
      "ts": 1767189312000090.0, "dur": 8, "args": {"correlation": 5}})",
      R"("deviceProperties": [{"id": 1}, {"id": 0, "name": "GPU", "computeMajor": 9, "computeMinor": 0, "numSms": 132,
      "maxThreadsPerMultiprocessor": 2048, "regsPerMultiprocessor": 65536, "sharedMemPerMultiprocessor": 233472}],
      "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8}, )"));
  ASSERT_EQ(recording.activities.size(), 1U);
  auto const& kernel = recording.activities[0];
  EXPECT_EQ(kernel.time, (Interval{10'250, 12'750}));
  EXPECT_EQ(recording.start_unix_ns, 1767189312000090000);
  EXPECT_EQ(recording.names[kernel.name], "gemm");
  EXPECT_EQ(kernel.channel, 3);
  EXPECT_EQ(kernel.graph, 4);
  EXPECT_TRUE(kernel.is_graph_node);
  EXPECT_EQ(kernel.kind, ActivityKind::kernel);
  LaunchShape const shape{
      .grid = {64, 2, 1}, .block = {128, 1, 1}, .registers_per_thread = 90, .shared_bytes = 49152};
  EXPECT_EQ(recording.shapes.at(kernel.shape), shape);
  ASSERT_EQ(recording.devices.size(), 1U) << "devices without work are left out";
  EXPECT_EQ(recording.devices[0].name, "GPU");
  EXPECT_EQ(recording.devices[0].sms, 132);
  EXPECT_EQ(recording.devices[0].registers_per_sm, 65536);
  EXPECT_EQ(recording.streams.at(kernel.stream).number, 7);
  EXPECT_EQ(recording.streams.at(kernel.stream).context, 1);
  EXPECT_EQ(recording.streams.at(kernel.stream).priority, -1);
  auto const& call = recording.calls.at(kernel.call);
  EXPECT_EQ(recording.names[call.name], "cudaLaunchKernel");
  EXPECT_EQ(call.kind, CallKind::launch);
  EXPECT_EQ(recording.threads.at(call.thread).number, 98);
  EXPECT_EQ(recording.rank, 3);
  EXPECT_EQ(recording.ranks, 8);
  EXPECT_TRUE(recording.has_calls && recording.has_channels);
  EXPECT_FALSE(recording.has_syncs || recording.has_overheads || recording.has_stream_types);
  EXPECT_EQ(recording.clock_step, 1);
}

TEST_F(KinetoTest, a_driver_call_inside_a_runtime_call_is_left_out) {
  auto const recording = read_one(trace_of(R"(
    {"ph": "X", "cat": "cuda_driver", "name": "cuLaunchKernel", "pid": 9, "tid": 9, "ts": 2, "dur": 3,
     "args": {"correlation": 6}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 1, "dur": 5,
     "args": {"correlation": 5}},
    {"ph": "X", "cat": "cuda_driver", "name": "cuLaunchKernel", "pid": 9, "tid": 8, "ts": 2, "dur": 3,
     "args": {"correlation": 7}},
    {"ph": "X", "cat": "cuda_driver", "name": "cuLaunchKernel", "pid": 9, "tid": 9, "ts": 6, "dur": 0,
     "args": {"correlation": 8}},
    {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 9, "dur": 1, "args": {"correlation": 6}},
    {"ph": "X", "cat": "kernel", "name": "b", "pid": 0, "tid": 7, "ts": 10, "dur": 1, "args": {"correlation": 7}},
    {"ph": "X", "cat": "kernel", "name": "c", "pid": 0, "tid": 7, "ts": 11, "dur": 1, "args": {"correlation": 8}})"));
  std::vector<std::string_view> callers;
  for (auto const& activity : recording.activities) {
    callers.push_back(recording.names[recording.calls.at(activity.call).name]);
  }
  EXPECT_THAT(callers, ElementsAre("cudaLaunchKernel", "cuLaunchKernel", "cuLaunchKernel"));
  EXPECT_EQ(recording.calls.size(), 3U);
  EXPECT_EQ(recording.clock_step, 1000);
}

TEST_F(KinetoTest, work_that_no_call_can_have_issued_is_noted) {
  auto const trace = [](char const* correlation) {
    return trace_of(std::string(R"(
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 1, "dur": 5,
     "args": {"correlation": 5}},
    {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 9, "dur": 1, "args": {)") +
                    correlation + "}}");
  };
  EXPECT_THAT(read_one(trace("")).notes, Contains(HasSubstr("has the correlation of a call")));
  EXPECT_THAT(read_one(trace(R"("correlation": 5)")).notes,
              Not(Contains(HasSubstr("has the correlation of a call"))));
}

TEST_F(KinetoTest, a_wait_names_the_call_and_the_stream_that_recorded_its_event) {
  auto const recording = read_one(trace_of(R"(
    {"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": 24, "ts": 5, "dur": 2,
     "args": {"cuda_sync_kind": "Stream Wait Event", "wait_on_stream": 20, "wait_on_cuda_event_record_corr_id": 2,
     "wait_on_cuda_event_id": 19, "stream": 24, "correlation": 3, "device": 0, "context": 1}},
    {"ph": "X", "cat": "cuda_sync", "name": "Context Sync", "pid": 0, "tid": -1, "ts": 9, "dur": 2,
     "args": {"cuda_sync_kind": "Context Sync", "stream": 4294967295, "correlation": 4, "device": 0, "context": 1}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaEventRecord", "pid": 9, "tid": 9, "ts": 3, "dur": 1,
     "args": {"correlation": 2}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamWaitEvent", "pid": 9, "tid": 9, "ts": 5, "dur": 2,
     "args": {"correlation": 3}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "pid": 9, "tid": 9, "ts": 20, "dur": 2,
     "args": {"correlation": 6}},
    {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 20, "ts": 1, "dur": 1,
     "args": {"context": 1, "stream": 20}})"));
  ASSERT_EQ(recording.syncs.size(), 3U);
  auto const& wait = recording.syncs[0];
  EXPECT_EQ(wait.kind, SyncKind::wait);
  EXPECT_EQ(recording.streams.at(wait.stream).number, 24);
  EXPECT_EQ(recording.streams.at(wait.record_stream).number, 20);
  EXPECT_EQ(recording.names[recording.calls.at(wait.record_call).name], "cudaEventRecord");
  EXPECT_EQ(recording.names[recording.calls.at(wait.call).name], "cudaStreamWaitEvent");
  EXPECT_EQ(recording.syncs[1].kind, SyncKind::device);
  EXPECT_EQ(recording.syncs[1].stream, kNone);
  EXPECT_EQ(recording.syncs[2].kind, SyncKind::stream) << "from the call alone";
  ASSERT_EQ(recording.event_records.size(), 1U);
  EXPECT_EQ(recording.event_records[0].event, 19);
  EXPECT_TRUE(recording.has_syncs);
}

TEST_F(KinetoTest, copies_and_collectives_are_understood) {
  auto const recording = read_one(trace_of(R"json(
    {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": 7, "ts": 1, "dur": 1,
     "args": {
  "bytes" : 1024}},
    {"ph": "X", "cat": "Memset", "name": "Memset (Device)", "pid": 0, "tid": 7, "ts": 2, "dur": 1, "args": {}},
    {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllGather_RING_LL(x)", "pid": 0, "tid": 8, "ts": 3, "dur": 1,
     "args": {"Collective name": "_allgather_base", "In msg nelems": 10, "Out msg nelems": 80, "dtype": "BFloat16",
     "Group size": 8, "Process Group Name": "3", "Process Group Ranks": "[0, 1]", "Seq": 12}},
    {"ph": "X", "cat": "kernel", "name": "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)", "pid": 0, "tid": 8,
     "ts": 4, "dur": 1}, )json"));
  ASSERT_EQ(recording.activities.size(), 4U);
  auto const& copy = recording.activities[0];
  EXPECT_EQ(copy.kind, ActivityKind::copy);
  EXPECT_EQ(copy.direction, CopyDirection::h2d);
  EXPECT_EQ(copy.source, MemoryKind::pageable);
  EXPECT_EQ(copy.target, MemoryKind::device);
  EXPECT_EQ(copy.bytes, 1024);
  EXPECT_EQ(recording.activities[1].kind, ActivityKind::fill);
  EXPECT_EQ(recording.activities[1].target, MemoryKind::device);
  auto const& gather = recording.collectives.at(recording.activities[2].collective);
  EXPECT_EQ(recording.names[gather.name], "_allgather_base");
  EXPECT_EQ(recording.names[gather.group], "3");
  EXPECT_EQ(recording.names[gather.members], "[0, 1]");
  EXPECT_EQ(gather.ranks, 8);
  EXPECT_EQ(gather.sequence, 12);
  EXPECT_EQ(gather.bytes, 160);
  auto const& reduce = recording.collectives.at(recording.activities[3].collective);
  EXPECT_EQ(recording.names[reduce.name], "allreduce");
  EXPECT_EQ(reduce.bytes, kUnknown);
}

TEST_F(KinetoTest, ranges_and_overheads_are_read) {
  auto const recording = read_one(trace_of(std::string(kKernel) + R"(,
    {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": "stream 7 "}},
    {"ph": "M", "name": "process_name", "pid": 99, "tid": 0, "args": {"name": "python3"}},
    {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#6", "pid": 0, "tid": 7,
     "ts": 1767189312000100, "dur": 9},
    {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 99, "tid": 99, "ts": 1767189312000050, "dur": 9},
    {"ph": "X", "cat": "python_function", "name": "f", "pid": 99, "tid": 99, "ts": 1767189312000001, "dur": 9},
    {"ph": "X", "cat": "overhead", "name": "Lazy Function Loading", "pid": -1, "tid": 0, "ts": 1767189312000060,
     "dur": 1.5})"));
  ASSERT_EQ(recording.ranges.size(), 2U);
  EXPECT_EQ(recording.ranges[0].kind, RangeKind::operation);
  EXPECT_EQ(recording.ranges[1].kind, RangeKind::on_device);
  EXPECT_EQ(recording.ranges[1].stream, recording.activities[0].stream);
  EXPECT_EQ(recording.names[recording.streams[0].name], "stream 7");
  EXPECT_EQ(recording.program, "python3");
  ASSERT_EQ(recording.overheads.size(), 1U);
  EXPECT_EQ(recording.overheads[0].kind, OverheadKind::module_load);
  EXPECT_TRUE(recording.has_overheads);
}

TEST_F(KinetoTest, multiprocessors_come_from_the_blocks_of_kernels_if_nothing_else_tells) {
  auto const recording = read_one(trace_of(R"(
    {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 1, "dur": 1,
     "args": {"stream": 7, "grid": [2400, 1, 1], "block": [256, 1, 1], "blocks per SM": 22.222221}})"));
  EXPECT_EQ(recording.devices.at(0).sms, 108);
  EXPECT_THAT(recording.notes, ::testing::Contains(HasSubstr("108")));
}

TEST_F(KinetoTest, records_that_run_backwards_are_left_out_with_a_note) {
  auto const recording = read_one(trace_of(std::string(kKernel) + R"(,
    {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 10, "dur": -1},
    {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "dur": 1})"));
  EXPECT_EQ(recording.activities.size(), 1U);
  EXPECT_THAT(
      recording.notes,
      ::testing::Contains(HasSubstr("1 record ends before it begins, and was left out: a on "
                                    "stream 7, of correlation 0, of -1.00 µs")));
  EXPECT_THAT(
      recording.notes,
      ::testing::Contains(HasSubstr("1 event without a usable time or stream was left out: a")));
}

/// Kernels without a context, and a wait with one.
TEST_F(KinetoTest, streams_are_one_if_only_their_waits_have_a_context) {
  auto const recording = read_one(trace_of(R"(
    {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 1, "dur": 1},
    {"ph": "X", "cat": "kernel", "name": "b", "pid": 0, "tid": 20, "ts": 3, "dur": 1},
    {"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": 20, "ts": 2, "dur": 0,
     "args": {"cuda_sync_kind": "Stream Wait Event", "stream": 20, "device": 0, "context": 1, "wait_on_stream": 7}})"));
  ASSERT_EQ(recording.syncs.size(), 1U);
  EXPECT_EQ(recording.syncs[0].stream, recording.activities[1].stream);
  EXPECT_EQ(recording.syncs[0].record_stream, recording.activities[0].stream);
}

/// A wait of a stream takes no time: what it is for counts, whatever length was written.
TEST_F(KinetoTest, waits_that_run_backwards_are_kept) {
  auto const recording = read_one(trace_of(std::string(kKernel) + R"(,
    {"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": 7, "ts": 10, "dur": -4,
     "args": {"cuda_sync_kind": "Stream Wait Event", "stream": 7, "wait_on_stream": 20}},
    {"ph": "X", "cat": "cuda_sync", "name": "Stream Sync", "pid": 0, "tid": 7, "ts": 10, "dur": -4,
     "args": {"cuda_sync_kind": "Stream Sync", "stream": 7}})"));
  ASSERT_EQ(recording.syncs.size(), 1U);
  EXPECT_EQ(recording.syncs[0].time.length(), 0);
  EXPECT_THAT(recording.notes, ::testing::Contains(HasSubstr("a synchronisation")));
}

TEST_F(KinetoTest, work_without_a_duration_is_left_out_with_a_note) {
  auto const recording = read_one(trace_of(std::string(kKernel) + R"(,
    {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 10, "dur": NaN},
    {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 20, "dur": "abc"})"));
  EXPECT_EQ(recording.activities.size(), 1U);
  EXPECT_THAT(
      recording.notes,
      ::testing::Contains(HasSubstr("2 events whose duration is no number were left out, the "
                                    "first one: a, at 10.000 us")));
}

/// A library launched two kernels by calls that the trace lacks, between calls that it has.
TEST_F(KinetoTest, calls_that_are_missing_were_made_between_their_neighbours) {
  auto const recording = read_one(trace_of(R"(
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 0, "dur": 2,
     "args": {"correlation": 10}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaEventRecord", "pid": 9, "tid": 9, "ts": 32, "dur": 1,
     "args": {"correlation": 20}},
    {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 100, "dur": 50,
     "args": {"stream": 7, "correlation": 10}},
    {"ph": "X", "cat": "kernel", "name": "b", "pid": 0, "tid": 7, "ts": 150, "dur": 50,
     "args": {"stream": 7, "correlation": 13}},
    {"ph": "X", "cat": "kernel", "name": "c", "pid": 0, "tid": 7, "ts": 200, "dur": 50,
     "args": {"stream": 7, "correlation": 16}},
    {"ph": "X", "cat": "kernel", "name": "after the last call", "pid": 0, "tid": 7, "ts": 250, "dur": 50,
     "args": {"stream": 7, "correlation": 30}})"));
  ASSERT_EQ(recording.activities.size(), 4U);
  ASSERT_EQ(recording.calls.size(), 4U);
  EXPECT_EQ(recording.calls.at(recording.activities[1].call).time, (Interval{12'000, 12'000}));
  EXPECT_EQ(recording.calls.at(recording.activities[2].call).time, (Interval{22'000, 22'000}));
  EXPECT_EQ(recording.calls.at(recording.activities[1].call).kind, CallKind::launch);
  EXPECT_EQ(recording.activities[3].call, kNone);
  EXPECT_THAT(recording.notes,
              ::testing::Contains(HasSubstr("lacks the calls that issued 2 activities")));
}

/// A stream of device 1 waits for one of device 0, whose number the wait alone does not place.
TEST_F(KinetoTest, waits_find_streams_of_other_devices) {
  constexpr auto kWork = R"(
    {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 21, "ts": 0, "dur": 5,
     "args": {"device": 0, "context": 1, "stream": 21}},
    {"ph": "X", "cat": "kernel", "name": "b", "pid": 1, "tid": 45, "ts": 6, "dur": 5,
     "args": {"device": 1, "context": 2, "stream": 45}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaEventRecord", "pid": 9, "tid": 9, "ts": 1, "dur": 1,
     "args": {"correlation": 3}},
    {"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 1, "tid": 45, "ts": 3, "dur": 0,
     "args": {"device": 1, "context": 2, "stream": 45, "correlation": 4, "wait_on_stream": 21,
     "wait_on_cuda_event_record_corr_id": 3, "wait_on_cuda_event_id": 5}})";
  constexpr auto kRecord = R"(,
    {"ph": "M", "name": "cuda_event_record", "pid": 0, "tid": 21, "args": {"device": 0, "context": 1, "stream": 21,
     "correlation": 3, "event": 5}})";
  for (std::string const& events : {std::string(kWork), std::string(kWork) + kRecord}) {
    auto const recording = read_one(trace_of(events));
    ASSERT_EQ(recording.syncs.size(), 1U);
    EXPECT_EQ(recording.syncs[0].record_stream, recording.activities[0].stream);
    EXPECT_EQ(recording.event_records.at(0).stream, recording.activities[0].stream);
  }
}

TEST_F(KinetoTest, fields_of_msstreams_recorder_are_read) {
  auto const recording = read_one(trace_of(R"(
    {"ph": "M", "name": "cuda_context", "pid": 0, "tid": 0, "args": {"device": 0, "context": 1, "null stream": 7}},
    {"ph": "M", "name": "cuda_stream", "pid": 0, "tid": 14, "args": {"device": 0, "context": 1, "stream": 14,
     "priority": -5, "flag": "non-blocking"}},
    {"ph": "M", "name": "cuda_event_record", "pid": 0, "tid": 14, "args": {"device": 0, "context": 1, "stream": 14,
     "correlation": 3, "event": 2}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaEventRecord", "pid": 9, "tid": 9, "ts": 0, "dur": 1,
     "args": {"correlation": 3}},
    {"ph": "X", "cat": "user_annotation", "name": "step", "pid": 9, "tid": 9, "ts": 0, "dur": 1,
     "args": {"nvtx": true, "domain": "mine"}},
    {"ph": "X", "cat": "kernel", "name": "CUDA graph 2", "pid": 0, "tid": 7, "ts": 1, "dur": 1,
     "args": {"whole graph": true, "graph id": 2, "context": 1, "stream": 7}},
    {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 14, "ts": 3, "dur": 1,
     "args": {"context": 1, "stream": 14, "cluster": [2, 1, 1], "grid": [2, 1, 1]}})"));
  EXPECT_TRUE(recording.has_stream_types);
  ASSERT_EQ(recording.activities.size(), 2U);
  EXPECT_EQ(recording.activities[0].kind, ActivityKind::graph);
  EXPECT_EQ(recording.activities[0].graph, 2);
  EXPECT_EQ(recording.streams[recording.activities[0].stream].type, StreamType::legacy);
  auto const& stream = recording.streams[recording.activities[1].stream];
  EXPECT_EQ(stream.type, StreamType::non_blocking);
  EXPECT_EQ(stream.priority, -5);
  EXPECT_EQ(recording.shapes.at(recording.activities[1].shape).cluster[0], 2);
  ASSERT_EQ(recording.event_records.size(), 1U);
  EXPECT_EQ(recording.event_records[0].call, 0U);
  EXPECT_EQ(recording.event_records[0].stream, recording.activities[1].stream);
  EXPECT_EQ(recording.ranges.at(0).kind, RangeKind::nvtx);
  EXPECT_EQ(recording.names[recording.ranges[0].domain], "mine");
}

TEST_F(KinetoTest, unknown_versions_are_noted) {
  constexpr auto kWork =
      R"({"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": {"stream": 7}})";
  for (auto const& [head, note] :
       {std::pair(R"("schemaVersion": 1, )", ""),
        std::pair(R"("schemaVersion": 2, )", "version 2 of Kineto's schema"),
        std::pair(R"("msstream_overlap": {"version": 1}, )", ""),
        std::pair(R"("msstream_overlap": {"version": 9}, )", "version 9 of msstream-overlap's")}) {
    auto const recording = read_one(trace_of(kWork, head));
    bool const is_noted = std::ranges::any_of(recording.notes, [](std::string const& text) {
      return text.find("this program reads version 1") != std::string::npos;
    });
    EXPECT_EQ(is_noted, !std::string_view(note).empty()) << head;
    if (is_noted) {
      EXPECT_THAT(recording.notes, Contains(HasSubstr(note)));
    }
  }
}

TEST_F(KinetoTest, an_error_tells_what_was_left_out) {
  auto const why = refusal(write(trace_of(R"(
    {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": "x", "dur": 1, "args": {"stream": 7}},
    {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 5, "dur": "x", "args": {"stream": 7}},
    {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 5, "dur": -2, "args": {"stream": 7}},
    {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 5, "dur": -2, "args": {"stream": 7}},
    {"ph": "B", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 5})")));
  EXPECT_THAT(why, HasSubstr("1 event without a usable time"));
  EXPECT_THAT(why, HasSubstr("1 event whose duration is no number"));
  EXPECT_THAT(why, HasSubstr("2 records end before they begin"));
  EXPECT_THAT(why, HasSubstr("1 pair of begin and end events"));
}

/// A name that was cut in the middle of a character has half a pair of surrogates.
TEST_F(KinetoTest, half_a_pair_of_surrogates_is_replaced) {
  auto const name_of = [this](std::string const& written) {
    auto const recording =
        read_one(trace_of(R"({"ph": "X", "cat": "kernel", "name": ")" + written +
                          R"(", "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": {"stream": 7}})"));
    return std::string(recording.names[recording.activities.at(0).name]);
  };
  EXPECT_EQ(name_of(R"(a\ud83d\ude00b)"),
            "a\xF0\x9F\x98\x80"
            "b");
  EXPECT_EQ(name_of(R"(a\ud83d)"), "a\xEF\xBF\xBD");
  EXPECT_EQ(name_of(R"(\ud83dx)"), "\xEF\xBF\xBDx");
  EXPECT_EQ(name_of(R"(\ud83d\n\u0041)"), "\xEF\xBF\xBD\nA");
  EXPECT_EQ(name_of(R"(\ud83d\ud83d\ude00)"), "\xEF\xBF\xBD\xF0\x9F\x98\x80");
  EXPECT_EQ(name_of(R"(\ude00\u00e9)"), "\xEF\xBF\xBD\xC3\xA9");
  EXPECT_EQ(name_of(R"(\"\\\/\b\f\n\r\t)"), "\"\\/\b\f\n\r\t");
  EXPECT_THAT(refusal(write(R"({"traceEvents": ["\x"]})")), HasSubstr("Invalid escape"));
  EXPECT_THAT(refusal(write(R"({"traceEvents": ["\u00g0"]})")), HasSubstr("broken JSON"));
  EXPECT_THAT(refusal(write(R"({"traceEvents": ["\ud83d)")), HasSubstr("truncated JSON"));
}

TEST_F(KinetoTest, the_source_is_the_tool_that_recorded_and_its_notes_are_read) {
  std::string const work = R"({"traceEvents": [
    {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": {"stream": 7}}])";
  EXPECT_EQ(read_one(work + "}").source, "Kineto");
  auto const recording =
      read_one(work + R"(, "msstream_overlap": {"version": 1, "notes": ["first"]},
    "msstream_overlap_end": {"complete": true, "notes": ["the limit of memory was reached"]}})");
  EXPECT_EQ(recording.source, kRecorderSource);
  EXPECT_THAT(recording.notes,
              ::testing::IsSupersetOf({"first", "the limit of memory was reached"}));
}

}  // namespace
}  // namespace msstream::overlap
