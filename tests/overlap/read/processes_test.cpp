// SPDX-License-Identifier: Apache-2.0
// Files with the traces of several processes.
#include "overlap/read/written_files.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

namespace msstream::overlap {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::trace_of;
using ProcessesTest = testing::ReadTest;

/// How a tool that merges writes the events of one process.
struct Written {
  std::string host;    ///< the number of the process, as JSON
  std::string device;  ///< that of its device's events
  int number = 0;      ///< the device's
  int first_correlation = 1;
  std::string marks = {};  ///< more arguments
};

/// Returns the events of a process that launches `kernels` kernels of a name, from `begin_us` on.
std::string events_of(Written const& how, std::string_view name, int kernels, int begin_us) {
  std::string events;
  for (int i = 0; i < kernels; ++i) {
    events += fmt::format(
        R"(,
{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": {0}, "tid": 1, "ts": {1}.5, "dur": 2,
  "args": {{"correlation": {2}{6}}}}},
{{"ph": "X", "cat": "kernel", "name": "{3}", "pid": {4}, "tid": 7, "ts": {1}9.5, "dur": 5,
  "args": {{"device": {5}, "context": 1, "stream": 7, "correlation": {2}{6}}}}})",
        how.host,
        begin_us + i,
        how.first_correlation + i,
        name,
        how.device,
        how.number,
        how.marks);
  }
  return events;
}

std::string merged(std::initializer_list<std::string> parts) {
  std::string events;
  for (auto const& part : parts) {
    events += part;
  }
  return trace_of(events.substr(1), R"("distributedInfo": {"rank": 0, "world_size": 1}, )");
}

/// Returns the names of the kernels of a recording, each once.
std::vector<std::string> kernels_of(Recording const& recording) {
  std::vector<std::string> names;
  for (auto const& activity : recording.activities) {
    names.emplace_back(recording.names[activity.name]);
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

void expect_two_ranks(std::vector<Recording> const& recordings, std::string_view how) {
  ASSERT_EQ(recordings.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    auto const& recording = recordings[i];
    EXPECT_EQ(recording.rank, static_cast<int>(i));
    EXPECT_EQ(recording.ranks, 2);
    EXPECT_THAT(kernels_of(recording), ElementsAre(i == 0 ? "first" : "second"));
    EXPECT_EQ(recording.activities.size(), i == 0 ? 3U : 4U);
    EXPECT_EQ(recording.calls.size(), recording.activities.size());
    EXPECT_EQ(recording.devices.size(), 1U);
    for (auto const& activity : recording.activities) {
      ASSERT_NE(activity.call, kNone);
      EXPECT_LE(recording.calls[activity.call].time.begin, activity.time.begin);
    }
    EXPECT_THAT(recording.notes, Contains(HasSubstr(std::string(how))));
  }
  // Both count from the first event of the file.
  EXPECT_EQ(recordings[0].calls[0].time.begin, 0);
  EXPECT_EQ(recordings[1].calls[0].time.begin, 100'000);
}

TEST_F(ProcessesTest, a_field_names_the_rank_of_each_event) {
  auto const file = write(
      merged({events_of({"99", "0", 0, 1, R"(, "rank": 0)"}, "first", 3, 100),
              events_of({"1000099", "1000000", 0, 100'001, R"(, "rank": 1)"}, "second", 4, 200)}));
  expect_two_ranks(read(file), "rank");
}

TEST_F(ProcessesTest, the_number_of_a_process_is_a_text_that_names_it) {
  auto const file =
      write(merged({events_of({R"("[TP00] 99")", R"("[TP00] 0")"}, "first", 3, 100),
                    events_of({R"("[TP01] 99")", R"("[TP01] 0")"}, "second", 4, 200)}));
  expect_two_ranks(read(file), "their numbers of processes name them");
}

TEST_F(ProcessesTest, calls_tell_work_apart) {
  auto const file = write(merged({events_of({"98", "0", 0, 1}, "first", 3, 100),
                                  events_of({"99", "1", 1, 50}, "second", 4, 200)}));
  auto const recordings = read(file);
  expect_two_ranks(recordings, "calls tell them apart");
  EXPECT_EQ(recordings[0].devices.at(0).number, 0);
  EXPECT_EQ(recordings[1].devices.at(0).number, 1);
}

TEST_F(ProcessesTest, the_owner_of_a_device_has_its_work_if_correlations_are_equal) {
  // The second process has one call that the first has not, which tells whose device 1 is. Its
  // events come in between.
  auto const second = events_of({"99", "1", 1, 1}, "second", 4, 200);
  auto const middle = second.find(",\n{\"ph\"", second.size() / 2);
  auto const file = write(merged({second.substr(0, middle),
                                  events_of({"98", "0", 0, 1}, "first", 3, 100),
                                  second.substr(middle)}));
  auto const recordings = read(file);
  ASSERT_EQ(recordings.size(), 2U);
  EXPECT_THAT(kernels_of(recordings[1]), ElementsAre("second"));
  EXPECT_EQ(recordings[1].activities.size(), 4U);
  EXPECT_THAT(recordings[1].notes, Contains(HasSubstr("calls tell them apart")));
}

TEST_F(ProcessesTest, the_order_of_the_file_decides_at_last_and_is_stated) {
  auto const file = write(merged({events_of({"98", "0", 0, 1}, "first", 3, 100),
                                  events_of({"99", "0", 0, 1}, "second", 4, 200)}));
  auto const recordings = read(file);
  expect_two_ranks(recordings, "follow from the order of the file");
}

TEST_F(ProcessesTest, processes_without_work_of_a_device_make_no_recording) {
  auto const recording = read_one(merged(
      {events_of({"98", "0", 0, 1}, "first", 3, 100),
       R"(,{"ph": "X", "cat": "cpu_op", "name": "load", "pid": 97, "tid": 1, "ts": 90, "dur": 9})",
       R"(,{"ph": "X", "cat": "cuda_runtime", "name": "cudaGetDeviceCount", "pid": 96, "tid": 1,
           "ts": 95, "dur": 1, "args": {"correlation": 77}})"}));
  EXPECT_EQ(recording.rank, 0);
  EXPECT_EQ(recording.activities.size(), 3U);
  EXPECT_EQ(recording.ranges.size(), 1U);
}

}  // namespace
}  // namespace msstream::overlap
