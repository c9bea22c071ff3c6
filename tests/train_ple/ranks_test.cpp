// SPDX-License-Identifier: Apache-2.0
#include "base/many.hpp"
#include "train_ple/small_ranks.hpp"
#include "training/step_program.hpp"

#include <cstddef>
#include <string>

namespace msstream::testing {
namespace {

/// On the host runtime, where any machine has as many ranks as it is asked for.
class TrainPleRanks : public StepProgramTest {
 protected:
  TrainPleRanks() : StepProgramTest(MSSTREAM_TRAIN_PLE) {}

  [[nodiscard]] static Words with_ranks(std::string const& ranks) {
    return small_ple_on_ranks(ranks);
  }
  [[nodiscard]] static Words form(std::string const& name) { return {"--form", name}; }
};

TEST_F(TrainPleRanks, have_the_bits_of_one_with_any_rank_count) {
  Words const same = {"--reproducible", "any_rank_count"};
  OneOf chosen(5);
  for (std::string const name : {"branches", "grouped"}) {
    auto const expected = results_of(with_ranks("1") + same + form(name));
    ASSERT_EQ(expected[0].size(), 8U);
    ASSERT_EQ(expected.size(), 3U);
    for (std::string const ranks : {"1", "2", "4", "8"}) {
      for (auto const& way : {Words{"--stream-groups", "1"},
                              Words{"--stream-groups", "4", "--capture"},
                              Words{"--stream-groups", "4"}}) {
        if (chosen.next()) {
          EXPECT_EQ(results_of(with_ranks(ranks) + same + form(name) + way), expected)
              << name << ", " << ranks << " ranks " << ::testing::PrintToString(way);
        }
      }
    }
  }
}

TEST_F(TrainPleRanks, learn_what_one_learns) {
  for (std::string const name : {"branches", "grouped"}) {
    auto const expected = results_of(with_ranks("1") + form(name));
    for (std::string const ranks : {"2", "3", "8", "halves"}) {
      auto const of = ranks == "halves" ? with_ranks("2") + Words{"--parallel", "half_batches"}
                                        : with_ranks(ranks);
      auto const found = results_of(of + form(name));
      EXPECT_EQ(results_of(of + form(name) + Words{"--capture"}), found);
      expect_equal_learning(found, expected, name + ", " + ranks + " ranks");
    }
  }
}

TEST_F(TrainPleRanks, that_are_processes_have_the_bits_of_threads) {
  auto const expected = results_of(with_ranks("2"))[0];
  auto const ended = run_program(MSSTREAM_AS_PROCESSES,
                                 Words{"2", MSSTREAM_TRAIN_PLE} + with_ranks("0") +
                                     Words{"--quiet=false", "--report", path("of_processes")});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(nlohmann::json::parse(read_all(path("of_processes")))["losses"], expected);
  EXPECT_THAT(ended.err, ::testing::HasSubstr("; 2 ranks, which are processes\n"));
  auto const line = ended.out.find("8 steps, eager: median ");
  ASSERT_NE(line, std::string::npos) << ended.out;
  EXPECT_EQ(ended.out.find("8 steps", line + 1), std::string::npos) << "another rank prints, too";
}

TEST_F(TrainPleRanks, that_cannot_be_are_refused_by_option_and_range) {
  expect_usage_error({"--ranks", "7"},
                     "--batch 512: rows of all ranks together; expected a "
                     "multiple of 7, the number of ranks");
  expect_usage_error({"--ranks", "2", "--assignment", "auto"},
                     "--assignment auto: tries groups on one rank; expected one rank, found 2");
  expect_usage_error(
      {"--parallel", "half_batches", "--assignment", folder.write("groups", "0:.*\n").string()},
      "--assignment: does not go with --parallel half_batches");
  expect_usage_error({"--ranks", "2", "--waits"}, "--waits: traces a step of one rank");
  expect_usage_error({"--ranks", "2", "--step-trace", path("step.svg")}, "--step-trace: traces");
}

}  // namespace
}  // namespace msstream::testing
