// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"

#include <msstream/report/run_report.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace msstream::report {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::read_all;
using testing::TemporaryFolder;

TEST(RunReport, has_values_objects_and_lists_in_their_order) {
  RunReport report;
  report.set("program", "dlrm");
  report.set("options/batch", 4096);
  report.set("options/rate", 0.5F);
  report.set("options/captured", true);
  report.append("losses", 0.75);
  report.append("losses", 0.5);
  report.append("epochs", {{"epoch", 1}, {"AUC", std::optional(0.75)}});
  report.append("epochs", {{"epoch", 2}, {"AUC", std::optional<double>()}});
  report.set("options/batch", std::uint64_t{512});
  EXPECT_EQ(report.json(),
            "{\n"
            " \"program\": \"dlrm\",\n"
            " \"options\": {\n"
            "  \"batch\": 512,\n"
            "  \"rate\": 0.5,\n"
            "  \"captured\": true\n"
            " },\n"
            " \"losses\": [0.75, 0.5],\n"
            " \"epochs\": [\n"
            "  {\"epoch\": 1, \"AUC\": 0.75},\n"
            "  {\"epoch\": 2, \"AUC\": null}\n"
            " ]\n"
            "}\n");
}

TEST(RunReport, is_json_whatever_the_values) {
  RunReport report;
  EXPECT_EQ(report.json(), "{}\n");
  report.set("a \"name\"\n", "\xff\x01");
  report.set("none", nullptr);
  report.set("nan", std::nan(""));
  report.set("infinity", std::numeric_limits<float>::infinity());
  report.set("least", std::numeric_limits<std::int64_t>::min());
  report.set("most", std::numeric_limits<std::uint64_t>::max());
  report.set("third", 1.0 / 3.0);
  auto const json = nlohmann::json::parse(report.json());
  EXPECT_EQ(json.at("a \"name\"\n"), "\xEF\xBF\xBD\x01");
  EXPECT_TRUE(json.at("none").is_null());
  EXPECT_TRUE(json.at("nan").is_null());
  EXPECT_TRUE(json.at("infinity").is_null());
  EXPECT_EQ(json.at("least"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(json.at("most"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(json.at("third"), 1.0 / 3.0);
}

TEST(RunReport, a_path_that_does_not_fit_is_refused_and_changes_nothing) {
  RunReport report;
  report.set("a/b", 1);
  report.append("list", 1);
  report.set("a/c_every", 1);
  report.set("a/list_every", 1);
  auto const before = report.json();
  auto const refused = [&](auto const& call, std::string const& message) {
    EXPECT_THAT(message_of<std::invalid_argument>(call), HasSubstr(message));
    EXPECT_EQ(report.json(), before);
  };
  refused([&] { report.set("a/b/c", 1); },
          "'b' of the path 'a/b/c' is a value; expected an object");
  refused([&] { report.set("a", 1); }, "'a' of the path 'a' is an object; expected a value");
  refused([&] { report.set("list", 1); }, "is a list; expected a value");
  refused([&] { report.append("a/b", 1); }, "is a value; expected a list");
  refused([&] { report.append("list/x", {{"y", 1}}); }, "is a list; expected an object");
  refused(
      [&] {
        report.append("list", {{"y", 1}, {"z", 1}, {"y", 2}});
      },
      "a row for 'list' with two values named 'y'; expected different names");
  refused(
      [&] { report.set("list_every", 1); },
      "'list_every' of the path 'list_every' is the name for the distance of the entries of the "
      "list 'list'; expected another name");
  refused([&] { report.append("list_every/x", 1); }, "is the name for the distance");
  refused([&] { report.set("", 1); }, "the path '' has an empty name");
  refused([&] { report.set("new//x", 1); }, "the path 'new//x' has an empty name");
  refused([&] { report.set("new/", 1); }, "the path 'new/' has an empty name");
  refused(
      [&] { report.append("a/c", 1); },
      "the list 'c' of the path 'a/c' beside 'c_every', the name for the distance of its entries");
  EXPECT_THROW(RunReport(1), std::invalid_argument);
}

TEST(RunReport, a_long_list_keeps_entries_at_equal_distances) {
  for (std::size_t const most : {2U, 3U, 7U, 8U}) {
    RunReport report(most);
    for (int i = 0; i < 1000; ++i) {
      report.append("losses", i);
      auto const json = nlohmann::json::parse(report.json());
      auto const& kept = json.at("losses");
      int const every = json.value("losses_every", 1);
      ASSERT_LE(kept.size(), most);
      ASSERT_EQ(kept.size(), static_cast<std::size_t>(i / every) + 1) << i;
      for (std::size_t k = 0; k < kept.size(); ++k) {
        ASSERT_EQ(kept[k], k * static_cast<std::size_t>(every)) << i;
      }
    }
  }
}

TEST(RunReport, is_written_as_a_whole) {
  TemporaryFolder const folder;
  RunReport report;
  report.set("a", 1);
  report.write(folder / "run.json");
  report.set("a", 2);
  report.write(folder / "run.json");
  EXPECT_EQ(read_all(folder / "run.json"), report.json());
  EXPECT_EQ(folder.names().size(), 1U);
}

TEST(RunReport, takes_values_of_several_threads) {
  RunReport report;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 500; ++i) {
        report.append("losses", i);
        report.set("threads/" + std::to_string(thread), i);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  auto const json = nlohmann::json::parse(report.json());
  EXPECT_EQ(json.at("losses").size(), 2000U);
  EXPECT_EQ(json.at("threads").size(), 4U);
}

}  // namespace
}  // namespace msstream::report
