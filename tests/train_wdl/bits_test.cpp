// SPDX-License-Identifier: Apache-2.0
#include "base/many.hpp"
#include "train_wdl/program.hpp"

namespace msstream::testing {
namespace {

class TrainWdlBits : public TrainWdlTest {
 protected:
  /// Runs the training program and returns the losses and metrics, which must not depend on how the
  /// run is issued.
  [[nodiscard]] nlohmann::json results_of(Words const& arguments) {
    auto const report = report_of(arguments);
    auto results = nlohmann::json::array({report["losses"]});
    for (auto const& epoch : report["epochs"]) {
      results.push_back({epoch["test_auc"], epoch["test_logloss"]});
    }
    return results;
  }

  void expect_same_bits(std::string const& optimizer) {
    auto const arguments = small() + Words{"--steps", "8", "--optimizer", optimizer};
    auto const expected = results_of(arguments + Words{"--stream-groups", "1"});
    ASSERT_EQ(expected[0].size(), 8U);
    ASSERT_EQ(expected.size(), 3U);
    for (auto const& loss : expected[0]) {
      ASSERT_TRUE(loss.is_number());
    }
    OneOf chosen(5);
    for (std::string const groups : {"1", "2", "4", "8"}) {
      for (auto const& merging : {Words{}, Words{"--merge-streams"}}) {
        for (auto const& waits : {Words{}, Words{"--no-reduce-waits"}}) {
          for (std::string const threads : {"none", "shared", "per_group"}) {
            if (!chosen.next()) {
              continue;
            }
            auto const way =
                Words{"--stream-groups", groups, "--launch-threads", threads} + merging + waits;
            EXPECT_EQ(results_of(arguments + way), expected) << ::testing::PrintToString(way);
          }
        }
      }
    }
  }
};

TEST_P(TrainWdlBits, with_adam_do_not_depend_on_the_streams) {
  expect_same_bits("adam");
}
TEST_P(TrainWdlBits, with_adagrad_do_not_depend_on_the_streams) {
  expect_same_bits("adagrad");
}
TEST_P(TrainWdlBits, with_sgd_do_not_depend_on_the_streams) {
  expect_same_bits("sgd");
}

TEST_P(TrainWdlBits, do_not_depend_on_captures) {
  auto const expected = results_of(small());
  for (std::string const groups : {"1", "4"}) {
    for (std::string const threads : {"none", "per_group"}) {
      auto const way = Words{"--capture", "--stream-groups", groups, "--launch-threads", threads};
      EXPECT_EQ(results_of(small() + way), expected) << ::testing::PrintToString(way);
    }
  }
}

TEST_P(TrainWdlBits, do_not_depend_on_how_many_operations_update_the_tables) {
  auto const expected = results_of(small());
  for (auto const& issued : {Words{"--stream-groups", "1"},
                             Words{"--stream-groups", "4"},
                             Words{"--stream-groups", "4", "--capture"}}) {
    auto const way = issued + Words{"--update-each-table"};
    EXPECT_EQ(results_of(small() + way), expected) << ::testing::PrintToString(way);
  }
}

TEST_P(TrainWdlBits, depend_on_the_seed_the_optimizer_and_the_rate) {
  auto const arguments = small() + Words{"--steps", "3"};
  auto const first = results_of(arguments);
  for (auto const& other : {Words{"--seed", "2"}, {"--optimizer", "sgd"}, {"--lr", "0.01"}}) {
    EXPECT_NE(results_of(arguments + other), first) << other.front();
  }
}

TEST_P(TrainWdlBits, do_not_depend_on_the_threads_that_read) {
  auto const arguments = small() + Words{"--steps", "8", "--reader-threads"};
  EXPECT_EQ(results_of(arguments + Words{"1"}), results_of(arguments + Words{"4"}));
}

INSTANTIATE_TEST_SUITE_P(Runtimes, TrainWdlBits, kRuntimes, name_of_runtime);

}  // namespace
}  // namespace msstream::testing
