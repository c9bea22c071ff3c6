// SPDX-License-Identifier: Apache-2.0
#include "datasets/batch_loader.hpp"

#include "datasets/batch_order.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <map>
#include <numeric>

namespace msstream::datasets {
namespace {

using ::testing::ElementsAre;
using Rows = std::vector<std::int64_t>;

/// Returns a data set of `rows` rows. The key, the continuous value and the label of a row are the
/// row's number.
Dataset numbered(std::int64_t rows) {
  RowBlock block{rows, {}, {}, {}};
  for (std::int64_t row = 0; row < rows; ++row) {
    block.keys.push_back(row);
    block.continuous.push_back(static_cast<float>(row));
    block.labels.push_back(static_cast<float>(row));
  }
  return {{{"k"}, {"x"}, {"y"}}, {block}};
}

Rows first_rows(std::int64_t count) {
  Rows rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

std::vector<StagedBatch*> pointers(HostStaging& staging) {
  std::vector<StagedBatch*> out;
  for (auto& batch : staging.batches()) {
    out.push_back(&batch);
  }
  return out;
}

Rows rows_of(StagedBatch const& batch) {
  return {batch.keys, batch.keys + batch.rows};
}

class BatchLoaderTest : public ::testing::Test {
 protected:
  BatchPlan plan(std::int64_t epochs = 1, bool shuffle = true) const {
    return {first_rows(100), 16, epochs, shuffle, 7};
  }

  /// Loads all batches of a plan, and returns their rows in the order in which BatchLoader::next()
  /// returns the batches.
  std::vector<Rows> drain(BatchPlan const& which, BatchLoader::Options options) {
    BatchLoader loader(data_, which, pointers(staging_), options);
    std::vector<Rows> batches;
    for (auto expected = options.first_batch; auto* batch = loader.next(); ++expected) {
      EXPECT_EQ(batch->index, expected);
      batches.push_back(rows_of(*batch));
      loader.recycle(batch);
    }
    return batches;
  }

  Dataset data_ = numbered(100);
  HostStaging staging_{BatchLayout(data_.schema(), 16), 3};
};

TEST_F(BatchLoaderTest, unshuffled_batches_hold_the_rows_in_order) {
  auto const batches = drain(plan(1, false), {});
  ASSERT_EQ(batches.size(), 7U);
  Rows seen;
  for (auto const& batch : batches) {
    seen.insert(seen.end(), batch.begin(), batch.end());
  }
  EXPECT_EQ(seen, first_rows(100));
  EXPECT_EQ(batches.back().size(), 4U);
}

TEST_F(BatchLoaderTest, whole_batches_leave_out_other_rows_each_epoch) {
  auto whole = plan(2);
  whole.whole_batches = true;
  EXPECT_EQ(whole.batch_count(), 12);
  auto const batches = drain(whole, {});
  ASSERT_EQ(batches.size(), 12U);
  std::vector<Rows> epochs(2);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    EXPECT_EQ(batches[i].size(), 16U);
    auto& epoch = epochs[i / 6];
    epoch.insert(epoch.end(), batches[i].begin(), batches[i].end());
  }
  for (auto& epoch : epochs) {
    std::ranges::sort(epoch);
    EXPECT_EQ(std::ranges::adjacent_find(epoch), epoch.end());
  }
  EXPECT_NE(epochs[0], epochs[1]);
  whole.batch_size = 101;
  EXPECT_THROW(BatchLoader(data_, whole, pointers(staging_)), std::invalid_argument);
}

TEST_F(BatchLoaderTest, each_epoch_holds_each_row_once_in_another_order) {
  auto const batches = drain(plan(3), {});
  ASSERT_EQ(batches.size(), 21U);
  std::vector<Rows> epochs(3);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    auto& epoch = epochs[i / 7];
    epoch.insert(epoch.end(), batches[i].begin(), batches[i].end());
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  for (auto& epoch : epochs) {
    EXPECT_NE(epoch, first_rows(100));
    std::ranges::sort(epoch);
    EXPECT_EQ(epoch, first_rows(100));
  }
}

TEST_F(BatchLoaderTest, the_number_of_threads_does_not_show) {
  auto const alone = drain(plan(4), {.threads = 1});
  EXPECT_EQ(drain(plan(4), {.threads = 2}), alone);
  EXPECT_EQ(drain(plan(4), {.threads = 8}), alone);
}

TEST_F(BatchLoaderTest, resumes_anywhere) {
  auto const all = drain(plan(3), {});
  for (std::int64_t const first : {1, 6, 7, 13, 21}) {
    EXPECT_EQ(drain(plan(3), {.first_batch = first}), std::vector(all.begin() + first, all.end()));
  }
}

TEST_F(BatchLoaderTest, fill_agrees_with_next) {
  BatchLoader loader(data_, plan(2), pointers(staging_));
  HostStaging own(loader.layout(), 1);
  for (std::int64_t index = 0; auto* batch = loader.next(); ++index) {
    loader.fill(index, own.batches()[0]);
    EXPECT_EQ(rows_of(own.batches()[0]), rows_of(*batch));
    loader.recycle(batch);
  }
  EXPECT_THROW(loader.fill(14, own.batches()[0]), std::out_of_range);
}

TEST_F(BatchLoaderTest, stays_ended_after_the_last_batch) {
  BatchLoader loader(data_, plan(0), pointers(staging_));
  EXPECT_EQ(loader.next(), nullptr);
  EXPECT_EQ(loader.next(), nullptr);
}

TEST_F(BatchLoaderTest, a_failure_comes_in_its_turn_and_stays) {
  auto broken = plan(1, false);
  broken.rows[40] = 100;  // a bad row in batch 2: the data has rows 0 to 99
  for (std::size_t const threads : {1, 4}) {
    BatchLoader loader(data_, broken, pointers(staging_), {.threads = threads});
    for (int good = 0; good < 2; ++good) {
      auto* batch = loader.next();
      ASSERT_EQ(batch->index, good);
      loader.recycle(batch);
    }
    EXPECT_THROW((void)loader.next(), std::out_of_range);
    EXPECT_THROW((void)loader.next(), std::out_of_range);
  }
}

TEST_F(BatchLoaderTest, holding_every_buffer_is_an_error_not_a_hang) {
  BatchLoader loader(data_, plan(), pointers(staging_));
  auto* first = loader.next();
  (void)loader.next();
  (void)loader.next();
  EXPECT_THROW((void)loader.next(), std::logic_error);
  loader.recycle(first);
  EXPECT_EQ(loader.next()->index, 3);
}

TEST_F(BatchLoaderTest, waits_for_buffers_that_come_back_from_elsewhere) {
  BatchLoader loader(data_, plan(), pointers(staging_), {.recycled_elsewhere = true});
  auto* first = loader.next();
  (void)loader.next();
  (void)loader.next();
  auto fourth = std::async(std::launch::async, [&] { return loader.next(); });
  loader.recycle(first);
  EXPECT_EQ(fourth.get()->index, 3);
}

TEST_F(BatchLoaderTest, stop_releases_a_waiting_next) {
  BatchLoader loader(data_, plan(), pointers(staging_), {.recycled_elsewhere = true});
  for (int i = 0; i < 3; ++i) {
    (void)loader.next();
  }
  auto waiting = std::async(std::launch::async, [&] { return loader.next(); });
  loader.stop();
  EXPECT_EQ(waiting.get(), nullptr);
  EXPECT_EQ(loader.next(), nullptr);
}

TEST_F(BatchLoaderTest, may_be_destroyed_at_any_time) {
  for (int taken = 0; taken < 40; ++taken) {
    BatchLoader loader(data_, plan(10), pointers(staging_), {.threads = 3});
    for (int i = 0; i < taken; ++i) {
      loader.recycle(loader.next());
    }
  }
}

TEST_F(BatchLoaderTest, refuses_a_batch_that_it_did_not_give) {
  BatchLoader loader(data_, plan(), pointers(staging_));
  EXPECT_THROW(loader.recycle(nullptr), std::invalid_argument);
  HostStaging other(loader.layout(), 1);
  EXPECT_THROW(loader.recycle(&other.batches()[0]), std::invalid_argument);
  auto* batch = loader.next();
  loader.recycle(batch);
  EXPECT_THROW(loader.recycle(batch), std::invalid_argument);
}

TEST_F(BatchLoaderTest, refuses_plans_that_cannot_work) {
  auto const make = [&](BatchPlan const& which, BatchLoader::Options options = {}) {
    BatchLoader const loader(data_, which, pointers(staging_), options);
  };
  EXPECT_THROW(make({{}, 16}), std::invalid_argument);
  EXPECT_THROW(make({first_rows(9), 0}), std::invalid_argument);
  EXPECT_THROW(make({first_rows(9), 4, -1}), std::invalid_argument);
  EXPECT_THROW(make(plan(), {.threads = 0}), std::invalid_argument);
  EXPECT_THROW(make(plan(), {.first_batch = 8}), std::invalid_argument);
  EXPECT_THROW(make(plan(), {.first_batch = -1}), std::invalid_argument);
  EXPECT_THROW(BatchLoader(data_, plan(), {}), std::invalid_argument);
}

TEST(BatchOrder, depends_on_seed_and_epoch_alone) {
  auto const rows = first_rows(50);
  EXPECT_EQ(shuffled(rows, 1, 2), shuffled(rows, 1, 2));
  EXPECT_NE(shuffled(rows, 1, 2), shuffled(rows, 1, 3));
  EXPECT_NE(shuffled(rows, 1, 2), shuffled(rows, 2, 2));
  EXPECT_THAT(shuffled({5}, 1, 1), ElementsAre(5));
  EXPECT_TRUE(shuffled({}, 1, 1).empty());
}

TEST(BatchOrder, every_order_is_about_as_frequent) {
  // Four rows have 24 orders. Among 24,000 shuffles each order is expected 1,000 times, with a
  // standard deviation of 31.
  std::map<Rows, int> count;
  for (std::uint64_t epoch = 0; epoch < 24'000; ++epoch) {
    ++count[shuffled({0, 1, 2, 3}, 3, epoch)];
  }
  ASSERT_EQ(count.size(), 24U);
  for (auto const& [order, times] : count) {
    EXPECT_NEAR(times, 1'000, 160);
  }
}

}  // namespace
}  // namespace msstream::datasets
