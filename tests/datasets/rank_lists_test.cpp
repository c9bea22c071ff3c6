// SPDX-License-Identifier: Apache-2.0
#include "datasets/rank_lists.hpp"

#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "datasets/data_files.hpp"

#include <msstream/data/data_error.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string_view>

namespace msstream::datasets {

namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using testing::gzipped;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;
using testing::test_data;

constexpr std::string_view kItems = "2 1:0.5 3:-1\n0\n1 2:7e-1\r\n\n3 1:1 2:2 3:3";

/// Writes a file of items and a file of queries, and returns the message of the DataError that
/// reading them throws.
std::string failure(std::string_view items, std::string_view queries, std::int64_t columns = 0) {
  TemporaryFolder const folder;
  auto const path = folder.write("rank", items);
  folder.write("rank.query", queries);
  return message_of<data::DataError>([&] { (void)read_rank_lists(path, columns); });
}

TEST(RankLists, are_read_from_text_or_gzip) {
  for (bool const packed : {false, true}) {
    TemporaryFolder const folder;
    auto const path = folder.write("rank", packed ? gzipped(kItems) : std::string(kItems));
    folder.write("rank.query", "1\n3\n");
    auto const lists = read_rank_lists(path);
    EXPECT_EQ(lists.columns, 3);
    EXPECT_EQ(lists.queries(), 2);
    EXPECT_EQ(lists.items(), 4);
    EXPECT_EQ(lists.longest(), 3);
    EXPECT_THAT(lists.offsets, ElementsAre(0, 1, 4));
    EXPECT_THAT(lists.grades, ElementsAre(2, 0, 1, 3));
    EXPECT_THAT(lists.features, ElementsAre(0.5F, 0, -1, 0, 0, 0, 0, 0.7F, 0, 1, 2, 3));
    EXPECT_EQ(read_rank_lists(path, 5).features.size(), 20U);
  }
}

TEST(RankLists, refuse_bad_lines_by_file_and_line) {
  EXPECT_THAT(failure("1 1:1\nx 1:1\n", "2"), EndsWith("rank:2: expected a label, found 'x'"));
  EXPECT_THAT(failure("-1 1:1\n", "1"),
              EndsWith("rank: item 1: expected a grade of 0 or more, found -1"));
  EXPECT_THAT(failure("nan 1:1\n", "1"), HasSubstr("rank:1: expected a label"));
  EXPECT_THAT(failure("1 1:1 2\n", "1"), EndsWith("rank:1: expected index:value, found '2'"));
  EXPECT_THAT(failure("1 1:inf\n", "1"), HasSubstr("rank:1: expected index:value"));
  EXPECT_THAT(failure("1 1:-3.4e38\n", "1"),
              EndsWith("rank: item 1: expected a feature from -1e12 to 1e12, found -3.4e+38"));
  EXPECT_THAT(failure("1 qid:3 1:1\n", "1"), EndsWith("index:value, found 'qid:3'"));
  EXPECT_THAT(failure("1 0:1\n", "1"), EndsWith("expected an index above 0, found '0:1'"));
  EXPECT_THAT(failure("1 4:1 4:2\n", "1"), EndsWith("expected an index above 4, found '4:2'"));
  EXPECT_THAT(failure("1 4:1\n", "1", 3), EndsWith("an index of at most 3, found '4:1'"));
  EXPECT_THAT(failure("1 99999999999:1\n", "1"), HasSubstr("an index of at most 1000000"));
  EXPECT_THAT(failure("1\n", "1"), EndsWith("expected items with features, found none"));
}

TEST(RankLists, refuse_queries_that_do_not_fit_the_items) {
  EXPECT_THAT(failure(kItems, "1\n0\n"),
              EndsWith("rank.query: list 2: expected a length from 1 to the 3 items that are left, "
                       "found 0"));
  EXPECT_THAT(failure(kItems, "5\n"), HasSubstr("rank.query: list 1: expected a length"));
  EXPECT_THAT(failure(kItems, "one\n"), HasSubstr("found 'one'"));
  EXPECT_THAT(failure(kItems, "1\n2\n"),
              EndsWith("rank.query: expected lists of 4 items together, found 3"));
  TemporaryFolder const folder;
  auto const alone = folder.write("rank", kItems);
  EXPECT_THAT(message_of<data::DataError>([&] { (void)read_rank_lists(alone); }),
              HasSubstr("rank.query"));
  EXPECT_THROW((void)read_rank_lists(alone, -1), std::invalid_argument);
}

TEST(RankLists, are_generated_with_all_lengths_and_grades) {
  auto const lists = generate_rank_lists({.queries = 400, .longest = 5, .columns = 7, .seed = 3});
  EXPECT_EQ(lists.queries(), 400);
  EXPECT_EQ(lists.longest(), 5);
  auto const items = static_cast<std::size_t>(lists.items());
  EXPECT_EQ(lists.grades.size(), items);
  EXPECT_EQ(lists.features.size(), 7 * items);
  for (int grade = 0; grade < 5; ++grade) {
    EXPECT_GT(std::ranges::count(lists.grades, static_cast<float>(grade)), 10) << grade;
  }
  std::size_t of_length[6] = {};
  for (std::size_t query = 0; query < 400; ++query) {
    ++of_length[lists.offsets[query + 1] - lists.offsets[query]];
  }
  EXPECT_EQ(of_length[0], 0U);
  EXPECT_GT(*std::min_element(of_length + 1, of_length + 6), 40U);
  EXPECT_EQ(generate_rank_lists({.queries = 400, .longest = 5, .columns = 7, .seed = 3}).features,
            lists.features);
  EXPECT_NE(generate_rank_lists({.queries = 400, .longest = 5, .columns = 7, .seed = 4}).features,
            lists.features);
  EXPECT_THROW((void)generate_rank_lists({.queries = 0}), std::invalid_argument);
}

TEST(RankListsOfRealData, lambdarank) {
  auto const path = test_data("lambdarank/rank.train");
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "no " << path << ": set MSSTREAM_TEST_DATA";
  }
  auto const lists = read_rank_lists(path);
  EXPECT_EQ(lists.queries(), 201);
  EXPECT_EQ(lists.items(), 3'005);
  EXPECT_EQ(lists.columns, 300);
  EXPECT_EQ(lists.longest(), 27);
  EXPECT_EQ(std::ranges::count(lists.grades, 4.0F), 69);
  EXPECT_EQ(lists.features[9], 0.89F) << "feature 10 of the first item";
  EXPECT_EQ(lists.features[0], 0.0F);
  EXPECT_EQ(lists.features[300], 0.69F);
}

TEST(RankLists, can_be_cut_and_appended) {
  RankLists const lists{.columns = 2,
                        .offsets = {0, 3, 4, 6},
                        .features = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
                        .grades = {0, 1, 2, 3, 4, 5}};
  auto shorter = cut(lists, 2);
  EXPECT_EQ(shorter.columns, 2);
  EXPECT_THAT(shorter.offsets, ElementsAre(0, 2, 3, 5));
  EXPECT_THAT(shorter.features, ElementsAre(1, 2, 3, 4, 7, 8, 9, 10, 11, 12));
  EXPECT_THAT(shorter.grades, ElementsAre(0, 1, 3, 4, 5));
  EXPECT_THROW((void)cut(lists, 0), std::invalid_argument);

  append(shorter, cut(lists, 1));
  EXPECT_THAT(shorter.offsets, ElementsAre(0, 2, 3, 5, 6, 7, 8));
  EXPECT_THAT(shorter.features, ElementsAre(1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 1, 2, 7, 8, 9, 10));
  EXPECT_THAT(shorter.grades, ElementsAre(0, 1, 3, 4, 5, 0, 3, 4));
  EXPECT_THROW(append(shorter, generate_rank_lists({.columns = 3})), std::invalid_argument);
}

}  // namespace
}  // namespace msstream::datasets
