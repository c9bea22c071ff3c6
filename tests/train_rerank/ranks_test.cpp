// SPDX-License-Identifier: Apache-2.0
#include "training/step_program.hpp"

#include <cstddef>
#include <string>

namespace msstream::testing {
namespace {

/// On the host runtime, where any machine has as many ranks as it is asked for.
class TrainRerankRanks : public StepProgramTest {
 protected:
  TrainRerankRanks() : StepProgramTest(MSSTREAM_TRAIN_RERANK) {}

  /// Returns options for 80 training lists, in three steps of 24 lists per epoch.
  [[nodiscard]] static Words with_ranks(std::string const& ranks) {
    return {"--runtime",      "host", "--queries", "100",     "--columns", "8", "--list",    "5",
            "--batch",        "24",   "--epochs",  "2",       "--width",   "4", "--targets", "2",
            "--tower-hidden", "4",    "--quiet",   "--ranks", ranks};
  }
};

TEST_F(TrainRerankRanks, have_the_bits_of_one_with_any_rank_count) {
  Words const same = {"--reproducible", "any_rank_count"};
  auto const expected = results_of(with_ranks("1") + same);
  ASSERT_EQ(expected[0].size(), 6U);
  ASSERT_EQ(expected.size(), 3U);
  for (std::string const ranks : {"1", "2", "4", "8"}) {
    for (auto const& way : {Words{"--stream-groups", "1"},
                            Words{"--stream-groups", "4", "--capture"},
                            Words{"--stream-groups", "4"}}) {
      EXPECT_EQ(results_of(with_ranks(ranks) + same + way), expected)
          << ranks << " ranks " << ::testing::PrintToString(way);
    }
  }
}

TEST_F(TrainRerankRanks, learn_what_one_learns) {
  auto const expected = results_of(with_ranks("1"));
  for (std::string const ranks : {"2", "3", "8"}) {
    auto const found = results_of(with_ranks(ranks));
    EXPECT_EQ(results_of(with_ranks(ranks) + Words{"--capture"}), found);
    ASSERT_EQ(found[0].size(), 6U);
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_NEAR(found[0][i].get<double>(), expected[0][i].get<double>(), 1e-5)
          << ranks << " ranks, step " << i;
    }
    for (std::size_t epoch = 1; epoch < 3; ++epoch) {
      EXPECT_NEAR(found[epoch]["test_loss"].get<double>(),
                  expected[epoch]["test_loss"].get<double>(),
                  1e-5);
    }
  }
}

TEST_F(TrainRerankRanks, that_cannot_be_are_refused_by_option_and_range) {
  expect_usage_error({"--ranks", "5"},
                     "--batch 32: rows of all ranks together; expected a "
                     "multiple of 5, the number of ranks");
  expect_usage_error({"--parallel", "sharded"},
                     "--parallel: expected one of data, half_batches, found 'sharded'");
  expect_usage_error({"--ranks", "2", "--waits"}, "--waits: traces a step of one rank");
}

}  // namespace
}  // namespace msstream::testing
