// SPDX-License-Identifier: Apache-2.0
#ifdef MSSTREAM_HAS_SQLITE
#include "overlap/read/written_files.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace msstream::overlap {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class NsightTest : public testing::ReadTest {
 protected:
  /// Writes a database with SQL.
  std::filesystem::path database(std::string const& sql) const {
    auto file = path("export.sqlite");
    std::filesystem::remove(file);
    sqlite3* opened = nullptr;
    EXPECT_EQ(sqlite3_open(file.c_str(), &opened), SQLITE_OK);
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(opened, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
    sqlite3_close(opened);
    return file;
  }
};

constexpr auto kHead = R"(
  CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
  INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_NAME', 'NVIDIA Nsight Systems'),
    ('EXPORT_PRODUCT_VERSION', '2026.1.1.204');
  CREATE TABLE StringIds (id INTEGER, value TEXT);
  INSERT INTO StringIds VALUES (1, 'gemm(float*)'), (2, 'gemm'), (3, 'cudaLaunchKernel_v7000'),
    (4, 'cudaStreamWaitEvent_v3020'), (5, 'cudaEventRecord_v3020'), (6, 'Command Buffer Full'), (7, 'python');
)";

// Of process 5: its globalPid is 5 << 24.
constexpr auto kWork = R"(
  CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
    streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER,
    registersPerThread INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER,
    blockZ INTEGER, staticSharedMemory INTEGER, dynamicSharedMemory INTEGER, graphNodeId INTEGER);
  INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
    (1000, 2001, 0, 1, 7, 11, 83886080, 1, 2, 32, 50, 4, 1, 256, 1, 1, 16, 32, NULL),
    (3000, 2900, 0, 1, 7, 12, 83886080, 1, 2, 32, 50, 4, 1, 256, 1, 1, 16, 32, NULL),
    (1500, 1600, 1, 2, 15, 11, 100663296, 1, 2, 32, 50, 4, 1, 256, 1, 1, 16, 32, 3);
  CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
    streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER,
    dstKind INTEGER);
  INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (500, 600, 0, 1, 13, 10, 83886080, 4096, 1, 0, 2);
  CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER,
    correlationId INTEGER, nameId INTEGER);
  INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900, 950, 0, 83886081, 11, 3), (700, 710, 0, 83886081, 8, 5),
    (800, 810, 0, 83886081, 9, 4), (1400, 1410, 0, 100663297, 11, 3);
)";

TEST_F(NsightTest, each_process_is_a_recording) {
  auto const recordings = read(database(std::string(kHead) + kWork));
  ASSERT_EQ(recordings.size(), 2U);
  auto const& first = recordings[0];
  ASSERT_EQ(first.activities.size(), 2U);
  EXPECT_THAT(first.notes, Contains(HasSubstr("1 record ends before it begins")));
  EXPECT_EQ(first.source, "Nsight Systems 2026.1.1");
  auto const& copy = first.activities[0];
  EXPECT_EQ(first.names[copy.name], "Memcpy HtoD (Pageable -> Device)");
  EXPECT_EQ(copy.source, MemoryKind::pageable);
  EXPECT_EQ(copy.bytes, 4096);
  EXPECT_EQ(copy.time, (Interval{0, 100}));
  auto const& kernel = first.activities[1];
  EXPECT_EQ(first.names[kernel.name], "gemm(float*)");
  EXPECT_EQ(kernel.time, (Interval{500, 1501}));
  EXPECT_EQ(first.shapes.at(kernel.shape).shared_bytes, 48);
  EXPECT_EQ(first.shapes.at(kernel.shape).registers_per_thread, 32);
  EXPECT_EQ(first.names[first.calls.at(kernel.call).name], "cudaLaunchKernel");
  EXPECT_EQ(first.clock_step, 1);
  auto const& second = recordings[1];
  ASSERT_EQ(second.activities.size(), 1U);
  EXPECT_TRUE(second.activities[0].is_graph_node);
  EXPECT_EQ(second.activities[0].call, 0U);
  EXPECT_EQ(second.devices.at(0).number, 1);
  EXPECT_EQ(second.activities[0].time, (Interval{1'000, 1'100}));  // on the first one's clock
}

TEST_F(NsightTest, waits_are_joined_by_event_sync_id) {
  auto const file = database(std::string(kHead) + kWork + R"(
    CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (timestamp INTEGER, deviceId INTEGER, contextId INTEGER,
      streamId INTEGER, correlationId INTEGER, globalPid INTEGER, eventId INTEGER, eventSyncId INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (0, 0, 1, 13, 8, 83886080, 77, 500);
    CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
      streamId INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER, eventId INTEGER,
      eventSyncId INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (800, 810, 9, 1, 7, 9, 83886080, 2, 77, 500),
      (820, 830, 0, 1, 4294967295, 99, 83886080, 4, 4294967295, 0);
    CREATE TABLE TARGET_INFO_CUDA_STREAM (streamId INTEGER, hwId INTEGER, vmId INTEGER, processId INTEGER,
      contextId INTEGER, priority INTEGER, flag INTEGER);
    INSERT INTO TARGET_INFO_CUDA_STREAM VALUES (13, 0, 1, 5, 1, 4294967291, 2), (7, 0, 1, 5, 1, 0, 3),
      (15, 0, 1, 5, 1, 0, 1);
    CREATE TABLE CUPTI_ACTIVITY_KIND_OVERHEAD (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER,
      overheadType INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_OVERHEAD VALUES (905, 945, 83886081, 6, 8);
    CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER,
      globalTid INTEGER, domainId INTEGER);
    INSERT INTO NVTX_EVENTS VALUES (500, 2500, 59, 'step', NULL, 83886081, 0), (500, NULL, 59, 'open', NULL, 83886081, 0),
      (1, NULL, 75, 'NCCL', NULL, 83886081, 1), (510, 520, 60, NULL, 7, 83886081, 1);
    CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER, maxWarpsPerSm INTEGER, threadsPerWarp INTEGER,
      maxBlocksPerSm INTEGER, maxRegistersPerSm INTEGER, maxShmemPerSm INTEGER, computeMajor INTEGER,
      computeMinor INTEGER, cuDevice INTEGER);
    INSERT INTO TARGET_INFO_GPU VALUES (0, 'RTX 3080', 68, 48, 32, 16, 65536, 102400, 8, 6, 0);
    CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);
    INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1779630014975716426);
    CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
    INSERT INTO PROCESSES VALUES (83886080, 5, 'trainer');)");
  auto const recordings = read(file);
  auto const& recording = recordings.at(0);
  EXPECT_TRUE(recording.has_syncs && recording.has_stream_types && recording.has_overheads);
  ASSERT_EQ(recording.syncs.size(), 2U);
  auto const& wait = recording.syncs[0];
  EXPECT_EQ(wait.kind, SyncKind::wait);
  EXPECT_EQ(recording.streams.at(wait.stream).number, 7) << "by its context, not by its device";
  EXPECT_EQ(wait.stream, recording.activities[1].stream);
  EXPECT_EQ(wait.record_stream, recording.activities[0].stream);
  EXPECT_EQ(recording.names[recording.calls.at(wait.record_call).name], "cudaEventRecord");
  EXPECT_EQ(recording.syncs[1].kind, SyncKind::device);
  EXPECT_EQ(recording.streams[wait.record_stream].priority, -5);
  EXPECT_EQ(recording.streams[wait.record_stream].type, StreamType::non_blocking);
  EXPECT_EQ(recording.streams[wait.stream].type, StreamType::legacy);
  EXPECT_EQ(recording.overheads.at(0).kind, OverheadKind::queue_is_full);
  ASSERT_EQ(recording.ranges.size(), 2U);
  EXPECT_EQ(recording.names[recording.ranges[0].name], "step");
  EXPECT_EQ(recording.names[recording.ranges[1].name], "python");
  EXPECT_EQ(recording.names[recording.ranges[1].domain], "NCCL");
  EXPECT_EQ(recording.devices.at(0).threads_per_sm, 1536);
  EXPECT_EQ(recording.devices.at(0).blocks_per_sm, 16);
  EXPECT_EQ(recording.start_unix_ns, 1779630014975716926);
  EXPECT_EQ(recording.program, "trainer");
}

/// Older exports have no eventSyncId: a wait is for the last recording of its event before, not for
/// one after it, nor for that of another context's event of the same number.
TEST_F(NsightTest, waits_are_joined_by_event_without_event_sync_ids) {
  auto const file = database(std::string(kHead) + kWork + R"(
    CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (deviceId INTEGER, contextId INTEGER, streamId INTEGER,
      correlationId INTEGER, globalPid INTEGER, eventId INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (0, 1, 7, 12, 83886080, 77), (0, 1, 13, 8, 83886080, 77),
      (0, 1, 7, 4, 83886080, 77), (0, 3, 7, 8, 83886080, 77);
    CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
      streamId INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER, eventId INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (800, 810, 0, 1, 7, 9, 83886080, 2, 77),
      (820, 830, 0, 1, 7, 3, 83886080, 2, 77);)");
  auto const recordings = read(file);
  auto const& recording = recordings.at(0);
  EXPECT_TRUE(recording.has_syncs);
  EXPECT_FALSE(recording.lacks_event_numbers);
  EXPECT_THAT(recording.notes, Contains(HasSubstr("the last recording of its event")));
  ASSERT_EQ(recording.syncs.size(), 2U);
  auto const& wait = recording.syncs[0];
  EXPECT_EQ(recording.streams.at(wait.record_stream).number, 13);
  EXPECT_EQ(recording.names[recording.calls.at(wait.record_call).name], "cudaEventRecord");
  EXPECT_EQ(recording.syncs[1].record_stream, kNone) << "before the first recording";
}

TEST_F(NsightTest, calls_name_the_innermost_function_of_the_program_in_their_stack) {
  auto const recordings = read(database(std::string(kHead) + kWork + R"(
    ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME ADD COLUMN callchainId INTEGER;
    UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET callchainId = 1 WHERE correlationId = 11;
    UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET callchainId = 2 WHERE correlationId = 8;
    UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET callchainId = 9 WHERE correlationId = 9;
    INSERT INTO StringIds VALUES (20, 'cudaLaunchKernel'), (21, '/usr/lib/libcudart.so.13'), (22, 'Trainer::step()'),
      (23, '/home/user/bin/train'), (24, 'main'), (25, 'at::add(at::Tensor)'), (26, '/opt/torch/lib/libtorch_cpu.so'),
      (27, '0x7f12');
    CREATE TABLE CUDA_CALLCHAINS (id INTEGER, symbol INTEGER, module INTEGER, unresolved INTEGER, originalIP INTEGER,
      stackDepth INTEGER);
    INSERT INTO CUDA_CALLCHAINS VALUES (1, 24, 23, NULL, 0, 4), (1, 22, 23, NULL, 0, 3), (1, 27, 23, 1, 0, 2),
      (1, 25, 26, NULL, 0, 1), (1, 20, 21, NULL, 0, 0), (2, 25, 26, NULL, 0, 1), (2, 20, 21, NULL, 0, 0);
  )"));
  ASSERT_EQ(recordings.size(), 2U);
  auto const& recording = recordings[0];
  std::vector<std::string> functions;
  for (auto const& call : recording.calls) {
    functions.emplace_back(recording.names[call.code]);
  }
  // By their begins: a record and a wait of events, and the launch.
  EXPECT_THAT(functions,
              ::testing::ElementsAre(
                  "at::add(at::Tensor) in libtorch_cpu.so", "", "Trainer::step() in train"));
}

TEST_F(NsightTest, missing_columns_are_noted) {
  auto const recordings = read(database(std::string(kHead) + R"(
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 0, 7);)"));
  ASSERT_EQ(recordings.size(), 1U);
  EXPECT_EQ(recordings[0].activities.size(), 1U);
  EXPECT_EQ(recordings[0].shapes.at(0).registers_per_thread, kUnknown);
  EXPECT_THAT(recordings[0].notes, Contains(HasSubstr("registersPerThread")));
  EXPECT_FALSE(recordings[0].has_calls);
}

TEST_F(NsightTest, unknown_versions_of_the_schema_are_noted) {
  struct Case {
    std::string version;
    std::string note;
  };
  for (auto const& [version, note] : {Case{"3.24.14", ""},
                                      Case{"3", ""},
                                      Case{"3.99.0", "version 3.99.0 of the schema"},
                                      Case{"3.x", "version 3.x of the schema"},
                                      Case{"4.0.0", "version 4.0.0 of the schema"},
                                      Case{"", "no version"}}) {
    auto const row = version.empty() ? ""
                                     : "INSERT INTO META_DATA_EXPORT VALUES "
                                       "('EXPORT_SCHEMA_VERSION', '" +
                                           version + "');";
    auto const recordings = read(database(std::string(kHead) + kWork + row));
    auto const& notes = recordings.at(0).notes;
    bool const is_noted = std::ranges::any_of(notes, [](std::string const& text) {
      return text.find("of the schema") != std::string::npos ||
             text.find("of its schema") != std::string::npos;
    });
    EXPECT_EQ(is_noted, !note.empty()) << version;
    if (!note.empty()) {
      EXPECT_THAT(notes, Contains(HasSubstr(note)));
    }
  }
}

TEST_F(NsightTest, work_without_times_or_places_is_refused_with_the_column) {
  for (std::string const column : {"start", "end", "deviceId", "streamId"}) {
    EXPECT_THAT(
        refusal(database(std::string(kHead) + kWork +
                         "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN \"" + column + "\";")),
        HasSubstr("CUPTI_ACTIVITY_KIND_KERNEL has no column " + column));
  }
}

TEST_F(NsightTest, other_missing_columns_are_noted_by_name) {
  for (auto const& [table, column] : {std::pair("KERNEL", "correlationId"),
                                      std::pair("MEMCPY", "copyKind"),
                                      std::pair("RUNTIME", "nameId")}) {
    auto const recordings =
        read(database(std::string(kHead) + kWork + "ALTER TABLE CUPTI_ACTIVITY_KIND_" + table +
                      " DROP COLUMN " + column + ";"));
    EXPECT_THAT(recordings.at(0).notes,
                Contains(HasSubstr(std::string(table) + " has no column " + column)));
  }
  auto const without_names = read(database(std::string(kHead) + kWork + "DROP TABLE StringIds;"));
  EXPECT_THAT(without_names.at(0).notes, Contains(HasSubstr("no table StringIds")));
}

TEST_F(NsightTest, texts_in_place_of_numbers_are_left_out_and_counted) {
  auto const recordings =
      read(database(std::string(kHead) + kWork +
                    "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'abc' WHERE streamId = 7;"));
  EXPECT_EQ(recordings.at(0).activities.size(), 1U);
  EXPECT_THAT(recordings[0].notes,
              Contains(HasSubstr("the first one: CUPTI_ACTIVITY_KIND_KERNEL.start")));
  auto const why = refusal(database(std::string(kHead) + kWork +
                                    "DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY;"
                                    "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'abc';"));
  EXPECT_THAT(why,
              HasSubstr("3 rows without a usable time were left out, the first one: "
                        "CUPTI_ACTIVITY_KIND_KERNEL, correlationId 11"));
  EXPECT_THAT(why, HasSubstr("CUPTI_ACTIVITY_KIND_KERNEL.start"));
}

TEST_F(NsightTest, processes_on_one_device_are_noted) {
  for (bool const is_shared : {true, false}) {
    auto const recordings =
        read(database(std::string(kHead) + kWork +
                      (is_shared ? "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = 0;" : "")));
    ASSERT_EQ(recordings.size(), 2U);
    bool const is_noted = std::ranges::any_of(recordings[1].notes, [](std::string const& text) {
      return text.find("2 processes of the file work on a GPU with the number 0") !=
             std::string::npos;
    });
    EXPECT_EQ(is_noted, is_shared);
  }
}

TEST_F(NsightTest, other_databases_are_refused_by_name) {
  EXPECT_THAT(refusal(database("CREATE TABLE cookies (id INTEGER);")),
              HasSubstr("no export of Nsight Systems: its tables are cookies"));
  EXPECT_THAT(refusal(database(kHead)), HasSubstr("no work of a device"));
  EXPECT_THAT(refusal(database(std::string(kHead) + kWork +
                               "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 100;"
                               "DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY;")),
              HasSubstr("2 records end before they begin, and were left out, the first one: "));
  // A view could be one that never ends.
  EXPECT_THAT(
      refusal(database(
          std::string(kHead) +
          "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS "
          "WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start "
          "FROM n;")),
      HasSubstr("no work of a device"));
  EXPECT_THAT(refusal(write("SQLite format 3\0 and nothing else")), HasSubstr("SQLite: "));
}

}  // namespace
}  // namespace msstream::overlap
#endif
