// SPDX-License-Identifier: Apache-2.0
// Messages and files as the pages of docs/ show them: scripts/check_snippets.py compares the pages
// with the texts in this file, and the tests compare the texts with what the library says.
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "comm/meeting_place.hpp"
#include "comm/part.hpp"
#include "comm/thread_world.hpp"
#include "runtime/sim_program.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/comm/communicator.hpp>
#include <msstream/comm/links.hpp>
#include <msstream/data/binary_reader.hpp>
#include <msstream/data/data_error.hpp>
#include <msstream/data/loader.hpp>
#include <msstream/data/text_reader.hpp>
#include <msstream/data/transforms.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/report/progress_line.hpp>
#include <msstream/runtime/host.hpp>
#include <msstream/runtime/sim_explore.hpp>
#include <msstream/stream/stream_assignment.hpp>
#include <msstream/tensor/copy.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using data::CsvReader;
using data::DataError;
using data::Loader;
using data::TextFile;
using data::TextOptions;
using enum data::ColumnType;

class PageMessages : public ::testing::Test {
 protected:
  /// Returns a message with the names of files as they are seen from the folder.
  std::string seen(std::string message) const {
    auto const prefix = folder_.path().string() + "/";
    for (auto at = message.find(prefix); at != std::string::npos; at = message.find(prefix)) {
      message.erase(at, prefix.size());
    }
    return message;
  }
  /// Returns why rows of a file cannot be read.
  std::string refusal(std::string_view name, std::string_view text, TextOptions const& options) {
    auto const path = folder_.write(name, text);
    return seen(message_of<DataError>([&] {
      CsvReader reader(TextFile(path), options);
      data::Transforms const transforms(reader.schema());
      Loader loader(reader, {.transforms = transforms});
      while (loader.next()) {
      }
    }));
  }

  TemporaryFolder folder_;
};

TEST_F(PageMessages, a_checkpoint_that_does_not_fit) {
  Device<Host> const device;
  std::filesystem::create_directory(folder_ / "run");
  auto const path = folder_ / "run/model.safetensors";
  checkpoint::Tensors saved;
  saved.add("top/2/bias", zeros<float>(device, {8})).add("user", zeros<float>(device, {1000, 32}));
  checkpoint::save(path, saved);
  checkpoint::Tensors wanted;
  wanted.add("top/1/bias", zeros<float>(device, {8})).add("user", zeros<float>(device, {1000, 64}));
  EXPECT_EQ(seen(message_of<std::invalid_argument>([&] { checkpoint::load(path, wanted); })),
            "run/model.safetensors: the checkpoint does not fit, and nothing was loaded: missing "
            "in the file: top/1/bias; only in the file (LoadOptions::allow_unexpected ignores "
            "them): top/2/bias; of another shape or type: user (expected F32 [1000, 64], found "
            "F32 [1000, 32])");
}

TEST_F(PageMessages, fields_that_are_wrong) {
  std::string const header = "label,age,country,tags\n";
  std::string rows;
  for (int row = 2; row < 7; ++row) {
    rows += "1,30,de,a\n";
  }
  EXPECT_EQ(refusal("train.csv",
                    header + rows + "1,x,de,a\n",
                    {.columns = {{"label"}, {.name = "age", .if_empty = 0.0}}}),
            "train.csv:7: column 2 (age): expected a number or nothing, found 'x'");
  EXPECT_EQ(refusal("train.csv", header + rows, {.columns = {{"label"}, {"income"}}}),
            "train.csv:1: column 'income': there is no field named 'income'; the fields are "
            "label, age, country, tags");
  EXPECT_EQ(refusal("train.csv", "label,age\r1,2\r", {.columns = {{"label"}}}),
            "train.csv:1: line ends are CR; expected LF or CRLF");
  auto const to_int = [](std::string_view text) -> std::optional<std::int64_t> {
    return std::stoll(std::string(text));
  };
  EXPECT_EQ(refusal("clicks.csv",
                    "user\n7\n8\ny\n",
                    {.columns = {{.name = "user", .type = int64, .to_int = to_int}}}),
            "clicks.csv:4: column 1 (user): expected an integer, found 'y': stoll");
}

TEST_F(PageMessages, rows_that_are_wrong) {
  EXPECT_EQ(
      refusal("clicks.csv",
              "seen,times\na|b,1|2\n\"c\",1\nd|e|f,1|2\n",
              {.columns = {{.name = "seen", .type = hashed, .value_separator = '|'},
                           {.name = "times", .value_separator = '|', .aligned_with = "seen"}}}),
      "clicks.csv, 2 rows behind line 2: column 'times' has 2 values, column 'seen' 3; "
      "expected equally many, as they are aligned");
  EXPECT_EQ(refusal("train.csv",
                    "age\n1\n\"2\"\n3\n4\n5\n-3\n",
                    {.columns = {{.name = "age", .transforms = {data::Transform::log1p()}}}}),
            "train.csv, 5 rows behind line 2: column 'age': log1p() of -3; expected a number "
            "above -1");

  std::vector<float> ages(8, 30.0F);
  ages[7] = std::numeric_limits<float>::quiet_NaN();
  auto const path = folder_.write(
      "age.f32", {reinterpret_cast<char const*>(ages.data()), ages.size() * sizeof(float)});
  EXPECT_EQ(seen(message_of<DataError>([&] {
              data::BinaryReader reader({{.name = "age", .path = path}});
              (void)Loader(reader).next();
            })),
            "age.f32: column 'age': row 7 is nan; expected a finite float32");
}

TEST_F(PageMessages, a_stray_quote_that_joins_lines) {
  std::string text = "id,name,x\n";
  for (int row = 1; row <= 902; ++row) {
    text += row == 1 ? "1,\"x,1\n" : row == 900 ? "900,\"b\",1\n" : std::to_string(row) + ",b,1\n";
  }
  EXPECT_EQ(refusal("train.csv", text, {.columns = {{"id"}, {"x"}}, .max_bad_rows = 899}),
            "train.csv:2: column 2: expected ',' or the end of the line behind the quoted value "
            "'x,1?2,b,1?3,b,1?4,b,1?5,b,1?6,b,1?7,b,1?…'; quotes join the lines 2 to 901; more bad "
            "rows than max_bad_rows, which is 899");
}

TEST_F(PageMessages, the_progress_line) {
  report::ProgressLine::Clock::time_point now{};
  std::ostringstream out;
  report::ProgressLine line(
      "epoch 1/3",
      29'629'608,
      {.kind = report::ProgressLine::Style::Kind::bar, .width = 96, .out = &out},
      [&] { return now; });
  now += std::chrono::seconds(12);
  line.update(14'814'804, {{"loss", 0.4512}, {"AUC", 0.7901}});
  EXPECT_EQ(out.str(),
            "\repoch 1/3  [########........]  50%  1,234,567 rows/s  loss 0.4512  AUC 0.7901  left "
            "0:12\x1b[K");
}

TEST_F(PageMessages, orders_with_different_outcomes) {
  auto const found = sim::explore(
      [](Sim::Options const& options) {
        SimProgram program(options, 2);  // s0 = [write 1], s1 = [write 2]: neither waits
        program.writes(0, 0, 1);
        program.writes(1, 0, 2);
        return static_cast<int>(program.cells()[0]);
      },
      {.random_schedules = 1000});
  EXPECT_EQ(to_string(found),
            "1000 orders, not all there are; 2 different outcomes:\n"
            "  561 times, MSSTREAM_SIM_SCHEDULE=random:1: 1023\n"
            "  439 times, MSSTREAM_SIM_SCHEDULE=random:3: 1953");
}

TEST_F(PageMessages, a_file_of_groups) {
  auto const assignment = StreamAssignment::parse(R"(
# group:expression,expression
1:(gradients/)?user_tower/.*
2:attention/.*,(gradients/)?tower_[01]/.*
)",
                                                  "groups.txt",
                                                  4);
  EXPECT_EQ(assignment.group_of("gradients/user_tower/dense"), 1);
  EXPECT_EQ(assignment.group_of("attention/softmax"), 2);
  EXPECT_EQ(assignment.group_of("tower_1/dense"), 2);
  EXPECT_EQ(assignment.group_of("tower_2/dense"), std::nullopt);
}

TEST_F(PageMessages, a_file_of_links) {
  auto const path = folder_.write("links.json", R"(
{"format": "msstream links", "version": 1, "ranks_per_node": 8, "multiprocessors": 16,
 "inside":  {"all_reduce": {"latency_ns": 16000, "step_ns": 2500, "bytes_per_ns": 300}},
 "between": {"all_reduce": {"latency_ns": 31000, "step_ns": 17000, "bytes_per_ns": 45}}}
)");
  using enum comm::CollectiveKind;
  comm::Links const expected{
      .ranks_per_node = 8,
      .inside = {{all_reduce, {.latency_ns = 16'000, .step_ns = 2'500, .bytes_per_ns = 300}}},
      .between = {{all_reduce, {.latency_ns = 31'000, .step_ns = 17'000, .bytes_per_ns = 45}}},
      .multiprocessors = 16};
  EXPECT_EQ(comm::load_links(path), expected);
}

// Parts in collectives that nothing carries out, issued in a file model.cpp.
comm::detail::Part model_part(comm::detail::CollectiveKind kind, std::int64_t count);
comm::detail::Part other_model_part(comm::detail::CollectiveKind kind, std::int64_t count);

TEST_F(PageMessages, collectives_in_different_orders) {
  auto const world = std::make_shared<comm::detail::ThreadWorld>(2);
  comm::detail::MeetingPlace place(world, "world");
  using enum comm::detail::CollectiveKind;
  place.announce(0, model_part(all_reduce, 8));
  place.announce(1, other_model_part(all_gather, 8));
  EXPECT_EQ(message_of<comm::CollectiveError>([&] { place.rethrow_failure(0, nullptr); }),
            "communicator 'world': rank 0 has all_reduce of 8 float32 (sum) at model.cpp:40, and "
            "rank 1 has all_gather of 8 float32 at model.cpp:52");
}

TEST_F(PageMessages, a_rank_that_does_not_come) {
  auto const world = std::make_shared<comm::detail::ThreadWorld>(2);
  comm::detail::MeetingPlace place(world, "gradients");
  place.announce(0, model_part(comm::detail::CollectiveKind::all_reduce, 1));
  place.set_in_flight(0, true);
  place.fail_stalled(0, std::chrono::seconds(30));
  EXPECT_EQ(message_of<comm::PeerLost>([&] { place.rethrow_failure(0, nullptr); }),
            "communicator 'gradients', rank 0 of 2, in all_reduce of 1 float32 (sum) at "
            "model.cpp:40: rank 1 is lost: it did not come within 30 s to all_reduce of 1 float32 "
            "(sum) at model.cpp:40, in which rank 0 waits; rank 1: not waiting, the latest here "
            "none");
}

// Behind the tests, whose failures have the lines of this file.
comm::detail::Part model_part(comm::detail::CollectiveKind kind, std::int64_t count) {
#line 40 "model.cpp"
  return part(kind, count);
}
comm::detail::Part other_model_part(comm::detail::CollectiveKind kind, std::int64_t count) {
#line 52 "model.cpp"
  return part(kind, count);
}

}  // namespace
}  // namespace msstream::testing
