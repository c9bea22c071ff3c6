// SPDX-License-Identifier: Apache-2.0
#include <msstream/stream/stream_assignment.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <thread>

namespace msstream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

StreamAssignment parse(std::string_view lines, int groups = 4) {
  return StreamAssignment::parse(lines, "streams", groups);
}

std::string failure(std::string_view lines, int groups = 4) {
  try {
    (void)parse(lines, groups);
  } catch (std::invalid_argument const& error) {
    return error.what();
  }
  return "did not throw";
}

TEST(StreamAssignment, gives_operations_the_group_of_the_line_that_matches) {
  auto const assignment = parse("2:attention/.*,tower_[01]/.*\n1:user/score\n");
  EXPECT_EQ(assignment.group_of("attention/query/score"), 2);
  EXPECT_EQ(assignment.group_of("tower_0/dense"), 2);
  EXPECT_EQ(assignment.group_of("user/score"), 1);
  EXPECT_EQ(assignment.group_of("tower_2/dense"), std::nullopt);
}

TEST(StreamAssignment, matches_whole_names) {
  auto const assignment = parse("1:dense");
  EXPECT_EQ(assignment.group_of("dense_1"), std::nullopt);
  EXPECT_EQ(assignment.group_of("my/dense"), std::nullopt);
  EXPECT_EQ(assignment.group_of(""), std::nullopt);
  EXPECT_EQ(assignment.group_of("dense"), 1);
}

TEST(StreamAssignment, the_first_line_that_matches_wins) {
  auto const assignment = parse("3:a.*\n1:ab,b\n3:b\n0:.*\n");
  EXPECT_EQ(assignment.group_of("ab"), 3);
  EXPECT_EQ(assignment.group_of("b"), 1);
  EXPECT_EQ(assignment.group_of("c"), 0);
}

TEST(StreamAssignment, skips_comments_and_blanks_and_takes_either_line_end) {
  auto const assignment = parse("# groups\r\n\r\n \t# more: 9\r\n  1 : a , b\t\r\n\n2:c#d");
  EXPECT_EQ(assignment.group_of("a"), 1);
  EXPECT_EQ(assignment.group_of("b"), 1);
  EXPECT_EQ(assignment.group_of("c#d"), 2);
  EXPECT_EQ(parse("").group_of("a"), std::nullopt);
}

TEST(StreamAssignment, reads_nothing_behind_the_text) {
  // While std::regex parses these expressions, it looks one character ahead. Reading the character
  // behind the end of the text would change the result.
  for (std::string_view const line : {"1:a(?", "1:[^"}) {
    std::string const exact(line.substr(0, line.size() - 1));
    EXPECT_EQ(failure(line.substr(0, line.size() - 1)), failure(exact)) << line;
    EXPECT_THAT(failure(exact), HasSubstr("expected a regular expression")) << line;
  }
  auto const heap = std::make_unique<char[]>(4);  // lets a sanitizer see reads past the end
  std::ranges::copy(std::string_view("1:a("), heap.get());
  EXPECT_THAT(failure({heap.get(), 4}), HasSubstr("expected a regular expression"));
}

TEST(StreamAssignment, only_the_first_colon_ends_the_group) {
  auto const assignment = parse("1:(?:user|item):score");
  EXPECT_EQ(assignment.group_of("item:score"), 1);
}

TEST(StreamAssignment, errors_name_file_line_and_what_is_accepted) {
  EXPECT_EQ(failure("1:a\n\n# x\nb\n"),
            "streams:4: expected group:expression,expression, found no colon in 'b'");
  EXPECT_EQ(failure("4:a"), "streams:1: expected a group from 0 to 3, found '4'");
  EXPECT_EQ(failure("0:a", 0), "streams: expected a pool of at least 1 group, found 0");
  for (auto const* number : {"", "-1", "+1", "1.0", "0x1", "one", "1 1", "99999999999999999999"}) {
    EXPECT_EQ(failure(fmt::format("{}:a", number)),
              fmt::format("streams:1: expected a group from 0 to 3, found '{}'", number));
  }
  for (auto const* line : {"1:", "1: ", "1:,", "1:a,", "1:,a", "1:a,,b", "1:a, ,b"}) {
    EXPECT_THAT(failure(line), StartsWith("streams:1: expected an expression, found nothing"))
        << line;
  }
  for (auto const* expression : {"(", ")", "a(", "[a", "*", "a{", "a{x}", "[z-a]", "\\"}) {
    EXPECT_THAT(
        failure(fmt::format("\n1:a,{}", expression)),
        StartsWith(fmt::format("streams:2: expected a regular expression, found '{}", expression)))
        << expression;
  }
  EXPECT_EQ(failure(std::string_view("1:a\0b", 5)), "streams:1: expected text, found a NUL byte");
}

TEST(StreamAssignment, long_expressions_are_refused) {
  constexpr auto longest = StreamAssignment::kLongestExpression;
  std::string const name(longest, 'a');
  EXPECT_EQ(parse("1:" + name).group_of(name), 1);
  EXPECT_THAT(failure("1:" + name + "a"), HasSubstr("expected an expression of at most 1024"));
}

TEST(StreamAssignment, repetitions_count_written_out) {
  EXPECT_EQ(parse("1:tower_[0-9]{2}").group_of("tower_07"), 1);
  EXPECT_EQ(parse("1:a\\{2\\}").group_of("a{2}"), 1);
  for (auto const* expression :
       {"a{1025}", "((a?){40}){40}", "a{99999999999999999999}", "(((a?){9}){9}){9}"}) {
    EXPECT_THAT(failure(fmt::format("1:{}", expression)),
                HasSubstr("at most 1024 bytes, repetitions written out"))
        << expression;
  }
}

TEST(StreamAssignment, what_may_take_exponential_time_is_refused) {
  EXPECT_EQ(failure("1:(a)\\1"),
            "streams:1: expected an expression without references to groups, found '(a)\\1'");
  EXPECT_THAT(failure("1:(?=a)a"), HasSubstr("without look-ahead"));
  EXPECT_THAT(failure("1:a(?!b).*"), HasSubstr("without look-ahead"));
}

TEST(StreamAssignment, ways_to_match_cost_no_time_and_long_names_no_stack) {
  // With backtracking, the first expression would take 2^40 steps, and the second one a stack frame
  // per character.
  EXPECT_EQ(parse("1:(a|a)*(a*)*b").group_of(std::string(40, 'a')), std::nullopt);
  EXPECT_EQ(parse("1:(.|a)*").group_of(std::string(300'000, 'a')), 1);
}

TEST(StreamAssignment, messages_quote_short_and_printable) {
  EXPECT_EQ(failure("\x1b" + std::string(99, 'z')),
            "streams:1: expected group:expression,expression, found no colon in '?" +
                std::string(59, 'z') + "…'");
}

TEST(StreamAssignment, tells_lines_that_matched_nothing_so_far) {
  auto const assignment = parse("# towers\n1:user/.*\n2:user/score, item/score\n3:gone\n");
  EXPECT_THAT(
      assignment.unmatched_lines(),
      ElementsAre(
          "streams:2: 1:user/.*", "streams:3: 2:user/score, item/score", "streams:4: 3:gone"));
  EXPECT_EQ(assignment.group_of("user/score"), 1);  // line 2 matches first and hides it from line 3
  EXPECT_EQ(assignment.group_of("other"), std::nullopt);
  EXPECT_THAT(assignment.unmatched_lines(),
              ElementsAre("streams:3: 2:user/score, item/score", "streams:4: 3:gone"));
  EXPECT_EQ(assignment.group_of("item/score"), 2);
  EXPECT_EQ(assignment.group_of("gone"), 3);
  EXPECT_THAT(assignment.unmatched_lines(), IsEmpty());
}

TEST(StreamAssignment, answers_the_same_again_also_beyond_its_cache) {
  auto const assignment = parse("1:step_[0-9]*[02468]\n2:.*7");
  constexpr auto names = static_cast<int>(StreamAssignment::kCachedNames) + 10;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < names; i += round == 0 ? 1 : 999) {
      auto const expected = i % 2 == 0    ? std::optional(1)
                            : i % 10 == 7 ? std::optional(2)
                                          : std::nullopt;
      ASSERT_EQ(assignment.group_of(fmt::format("step_{}", i)), expected) << i;
    }
  }
  EXPECT_EQ(assignment.group_of(fmt::format("step_{}", names)), std::optional(1))
      << "one that did not fit";
  EXPECT_THAT(assignment.unmatched_lines(), IsEmpty());
}

TEST(StreamAssignment, threads_may_ask_at_once) {
  auto const assignment = parse("1:.*[02468]\n2:.*");
  {
    std::vector<std::jthread> askers;
    for (int asker = 0; asker < 4; ++asker) {
      askers.emplace_back([&assignment] {
        for (int i = 0; i < 500; ++i) {
          ASSERT_EQ(assignment.group_of(fmt::format("op_{}", i)), i % 2 == 0 ? 1 : 2) << i;
          ASSERT_LE(assignment.unmatched_lines().size(), 2U);
        }
      });
    }
  }
  EXPECT_THAT(assignment.unmatched_lines(), IsEmpty());
}

TEST(StreamAssignment, moves_with_what_it_knows) {
  auto first = parse("1:a\n2:b");
  EXPECT_EQ(first.group_of("a"), 1);
  auto const second = std::move(first);
  EXPECT_THAT(second.unmatched_lines(), ElementsAre("streams:2: 2:b"));
  EXPECT_EQ(second.group_of("b"), 2);
}

class StreamAssignmentFile : public ::testing::Test {
 protected:
  StreamAssignmentFile()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(folder_);
  }
  ~StreamAssignmentFile() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string failure(std::filesystem::path const& path) {
    try {
      (void)StreamAssignment::from_file(path, 2);
    } catch (std::invalid_argument const& error) {
      return error.what();
    }
    return "did not throw";
  }

  std::filesystem::path folder_;
};

TEST_F(StreamAssignmentFile, is_read_and_named_in_messages) {
  auto const path = folder_ / "groups.txt";
  std::ofstream(path) << "1:a\n";
  EXPECT_EQ(StreamAssignment::from_file(path, 2).group_of("a"), 1);
  std::ofstream(path) << "1:a\n2:b\n";
  EXPECT_EQ(failure(path), path.string() + ":2: expected a group from 0 to 1, found '2'");
}

TEST_F(StreamAssignmentFile, that_cannot_be_read_is_refused) {
  EXPECT_EQ(failure(folder_ / "absent"),
            (folder_ / "absent").string() + ": cannot open: No such file or directory");
  EXPECT_EQ(failure(folder_), folder_.string() + ": expected a file, found a folder");
}

}  // namespace
}  // namespace msstream
