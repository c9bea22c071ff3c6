// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/trial.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using msstream::overlap::record::Trial;

TEST(OverlapTrialWords, each_word_sets_its_member) {
  std::vector<std::string> unknown;
  auto const trial = Trial::from("without=driver+sync,buffer-kib=1024,nice=5,pthread-ids", unknown);
  EXPECT_TRUE(unknown.empty());
  EXPECT_TRUE(trial.leaves_out("driver") && trial.leaves_out("sync"));
  EXPECT_FALSE(trial.leaves_out("kernel"));
  EXPECT_EQ(trial.buffer_kib, 1024U);
  EXPECT_EQ(trial.nice, 5U);
  EXPECT_TRUE(trial.pthread_ids);
  EXPECT_FALSE(trial.discard || trial.pinned);
}

TEST(OverlapTrialWords, words_that_are_none_are_returned) {
  std::vector<std::string> unknown;
  auto const trial = Trial::from("fast,nice=,nice=x,without=everything,discard=1", unknown);
  EXPECT_EQ(unknown.size(), 5U);
  EXPECT_FALSE(trial.discard);
  EXPECT_EQ(trial.nice, 0U);
  EXPECT_TRUE(Trial::from("", unknown).without.empty());
  EXPECT_EQ(unknown.size(), 5U);
}

}  // namespace
