// SPDX-License-Identifier: Apache-2.0
#include "overlap/read/written_files.hpp"

#include <msstream/step/step_trace.hpp>
#include <msstream/trace/timeline.hpp>

#include <nlohmann/json.hpp>

#include <string>
#include <tuple>

namespace msstream::overlap {
namespace {

using ::testing::Contains;
using testing::gzipped;
using ::testing::HasSubstr;
using testing::trace_of;
using ReadFileTest = testing::ReadTest;

constexpr auto kTrace =
    R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 1, "dur": 1}]})";

TEST_F(ReadFileTest, gzip_of_several_members_is_read_as_one) {
  std::string_view const text = kTrace;
  auto const recordings =
      read(write(gzipped(text.substr(0, 20)) + gzipped(text.substr(20)), "no_ending"));
  EXPECT_EQ(recordings.at(0).activities.size(), 1U);
}

TEST_F(ReadFileTest, a_list_of_events_is_a_trace) {
  std::string_view const text = kTrace;
  auto const begin = text.find('[');
  EXPECT_EQ(read_one(text.substr(begin, text.size() - begin - 1)).activities.size(), 1U);
}

TEST_F(ReadFileTest, events_may_cross_the_pieces_in_which_a_file_is_read) {
  std::string events;
  for (int i = 0; i < 20'000; ++i) {
    events += (i == 0 ? "" : ",\n") +
              std::string(R"({"ph": "X", "cat": "kernel", "name": "kernel \"n\u00e9\" )") +
              std::to_string(i % 7) + R"(", "pid": 0, "tid": 7, "ts": )" + std::to_string(i) +
              R"(.125, "dur": 0.5, "args": {"stream": 7}})";
  }
  auto const recording = read_one(gzipped(trace_of(events)));
  ASSERT_EQ(recording.activities.size(), 20'000U);
  EXPECT_EQ(recording.activities.back().time, (Interval{19'999'000, 19'999'500}));
  EXPECT_EQ(recording.names[recording.activities.back().name], "kernel \"n\u00e9\" 0");
  EXPECT_EQ(recording.names.size(), 8U);
}

TEST_F(ReadFileTest, a_list_of_events_may_lack_its_end) {
  std::string const whole(kTrace);
  auto const begin = whole.find('[');
  auto const end = whole.rfind(']');
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos);
  auto const expected = read_one(whole);
  auto const events = whole.substr(begin, whole.find_last_not_of(" \n", end - 1) + 1 - begin);
  for (auto const* const rest : {"", " ", ",", ",\n"}) {
    auto const recording = read_one(events + rest);
    EXPECT_EQ(recording.activities.size(), expected.activities.size()) << "'" << rest << "'";
    EXPECT_THAT(recording.notes, ::testing::Contains(HasSubstr("the list of events has no end")));
  }
  EXPECT_THAT(refusal(write(events.substr(0, events.size() - 1))), HasSubstr("truncated JSON"));
}

TEST_F(ReadFileTest, refusals_name_the_file_and_the_problem) {
  EXPECT_THAT(refusal(path("missing")), HasSubstr("No such file"));
  EXPECT_THAT(refusal(path("")), HasSubstr("is a folder"));
  EXPECT_THAT(refusal(write("")), HasSubstr("is empty"));
  EXPECT_THAT(refusal(write("hello")), HasSubstr("neither JSON"));
  auto const packed = gzipped(kTrace);
  EXPECT_THAT(refusal(write(packed.substr(0, packed.size() / 2))), HasSubstr("truncated gzip"));
  auto damaged = packed;
  damaged[packed.size() - 6] ^= 1;
  EXPECT_THAT(refusal(write(damaged)), HasSubstr("broken gzip"));
  EXPECT_THAT(refusal(write(packed + "behind")), HasSubstr("broken gzip"));
  EXPECT_THAT(refusal(write(std::string_view(kTrace).substr(0, 50))),
              HasSubstr("truncated JSON at byte 50"));
  EXPECT_THAT(refusal(write(R"({"traceEvents": [{"ph" "X"}]} )")),
              HasSubstr("broken JSON at byte 23"));
  EXPECT_THAT(refusal(write(R"({"a": 1})")), HasSubstr("without the list \"traceEvents\""));
  EXPECT_THAT(refusal(write(trace_of(""))), HasSubstr("no work of a device"));
  EXPECT_THAT(refusal(write(std::string(100'000, '['))), HasSubstr("nested too deeply"));
}

TEST_F(ReadFileTest, refusals_name_other_compressions) {
  using namespace std::string_literals;
  for (auto const& [begin, name, command] : {std::tuple("\x28\xB5\x2F\xFD"s, "zstd", "zstd -d"),
                                             std::tuple("\xFD\x37zXZ\x00"s, "xz", "xz -d"),
                                             std::tuple("\x04\x22\x4D\x18"s, "lz4", "lz4 -d"),
                                             std::tuple("BZh91AY"s, "bzip2", "bzip2 -d"),
                                             std::tuple("PK\x03\x04"s, "zip", "unzip")}) {
    // A brace, which begins JSON, may be anywhere in packed bytes.
    auto const text = refusal(write(begin + "{ packed bytes", name));
    EXPECT_THAT(text, HasSubstr("is compressed by "s + name));
    EXPECT_THAT(text, HasSubstr("("s + command + ")"));
    EXPECT_THAT(text, HasSubstr(path(name)));
  }
}

TEST_F(ReadFileTest, progress_ends_with_the_size_of_the_file) {
  auto const file = write(gzipped(kTrace));
  std::size_t last = 0;
  std::size_t whole = 0;
  auto const recordings = read(file, {.progress = [&](std::size_t done, std::size_t size) {
                                 EXPECT_LE(last, done);
                                 last = done;
                                 whole = size;
                               }});
  EXPECT_EQ(last, whole);
  EXPECT_EQ(whole, std::filesystem::file_size(file));
}

TEST_F(ReadFileTest, a_timeline_of_msstream_has_lanes) {
  trace::Timeline const timeline(
      {{"upload", "group 0 h2d", 0, 1000.5}, {"add", "group 0", 2000, 2500}});
  auto const recording = read_one(timeline.trace_json());
  ASSERT_EQ(recording.activities.size(), 2U);
  EXPECT_EQ(recording.activities[0].kind, ActivityKind::copy);
  EXPECT_EQ(recording.activities[0].direction, CopyDirection::h2d);
  EXPECT_EQ(recording.activities[1].time, (Interval{2000, 2500}));
  EXPECT_EQ(recording.names[recording.streams[recording.activities[1].stream].name], "group 0");
  EXPECT_FALSE(recording.has_calls);
  EXPECT_THAT(recording.source, HasSubstr("timeline"));
}

TEST_F(ReadFileTest, a_timeline_of_a_rank_may_have_streams_of_one_name) {
  trace::Timeline const timeline(
      {{"upload", "group 0 h2d", 0, 1000, 1, 1}, {"upload", "group 0 h2d", 500, 2500, 4, 1}});
  auto const recording = read_one(timeline.trace_json(3));
  ASSERT_EQ(recording.activities.size(), 2U);
  EXPECT_NE(recording.activities[0].stream, recording.activities[1].stream);
  for (auto const& activity : recording.activities) {
    EXPECT_EQ(activity.direction, CopyDirection::h2d);
  }
  EXPECT_THAT(recording.source, HasSubstr("timeline"));
}

TEST_F(ReadFileTest, merged_timelines_of_ranks_are_recordings_of_their_own) {
  trace::Timeline const timeline({{"add", "group 0 compute", 0, 1000, 1, 1}});
  auto merged = nlohmann::json::parse(timeline.trace_json(0));
  auto const other = nlohmann::json::parse(timeline.trace_json(2));
  for (auto const& event : other["traceEvents"]) {
    merged["traceEvents"].push_back(event);
  }
  auto const recordings = read(write(merged.dump()));
  ASSERT_EQ(recordings.size(), 2U);
  EXPECT_EQ(recordings[0].rank, 0);
  EXPECT_EQ(recordings[1].rank, 2);
  for (auto const& recording : recordings) {
    ASSERT_EQ(recording.activities.size(), 1U);
    EXPECT_EQ(recording.names[recording.streams[recording.activities[0].stream].name],
              "group 0 compute");
  }
}

TEST_F(ReadFileTest, a_step_trace_has_dependencies) {
  StepTrace const trace(
      {{"group 0", 0, true}, {"group 1", 1, true}},
      {64},
      {{.name = "upload", .stream = 0, .kind = StreamKind::h2d, .writes = {0}, .end_ns = 10},
       {.name = "use", .stream = 1, .reads = {0}, .begin_ns = 12, .end_ns = 20}});
  for (auto const& bytes : {trace.json(), gzipped(trace.json())}) {
    auto const recording = read_one(bytes);
    ASSERT_EQ(recording.activities.size(), 2U);
    EXPECT_EQ(recording.activities[0].direction, CopyDirection::h2d);
    EXPECT_EQ(recording.activities[1].time, (Interval{12, 20}));
    EXPECT_TRUE(recording.has_dependencies);
    ASSERT_EQ(recording.dependencies.size(), 1U);
    EXPECT_EQ(recording.dependencies[0].before, 0U);
    EXPECT_EQ(recording.dependencies[0].after, 1U);
  }
  EXPECT_THAT(refusal(write(R"({"format": "msstream step trace", "version": 1})")),
              HasSubstr("streams"));
}

}  // namespace
}  // namespace msstream::overlap
