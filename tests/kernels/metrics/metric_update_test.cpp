// SPDX-License-Identifier: Apache-2.0
#include "metrics/metric_update.hpp"

#include "kernels/kernel_fixture.hpp"
#include "metrics/metric_math.hpp"
#include "metrics/ranked_area.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace msstream::ops::kernels::testing {
namespace {

template <class Stream>
class MetricUpdateTest : public KernelTest<Stream> {
 protected:
  static constexpr std::size_t kWords = sizeof(Tally) / sizeof(std::uint64_t);

  Buffer<std::uint64_t> empty_tally() { return this->upload(std::vector<std::uint64_t>(kWords)); }
  MetricUpdate update_of(MetricKind kind,
                         Buffer<float> const& scores,
                         Buffer<float> const& labels,
                         Buffer<std::uint64_t> const& tally) {
    MetricUpdate update{};
    update.kind = kind;
    update.rows = static_cast<std::int64_t>(scores.count());
    update.bound = 30.0;
    update.scores = scores.data();
    update.labels = labels.data();
    update.tally = reinterpret_cast<Tally*>(tally.data());
    return update;
  }
};
TYPED_TEST_SUITE(MetricUpdateTest, StreamKinds, StreamKindName);

TYPED_TEST(MetricUpdateTest, kept_examples_end_at_the_capacity) {
  for (std::int64_t const rows : {1, 31, 33, 255, 257, 4097}) {
    auto const host_scores = this->random.reals(rows);
    auto const scores = this->upload(host_scores);
    auto const labels = this->upload(std::vector<float>(static_cast<std::size_t>(rows), 1.0F));
    auto const users = this->upload(this->random.integers(rows, -5, 5));
    auto const tally = this->empty_tally();
    auto const capacity = rows + rows / 2;
    auto const kept_scores = this->floats(capacity);
    auto const kept_weights = this->floats(capacity);
    auto const kept_labels = this->template poisoned<std::uint8_t>(capacity);
    auto const kept_users = this->template poisoned<std::int64_t>(capacity);
    auto update = this->update_of(MetricKind::kept, scores, labels, tally);
    update.capacity = capacity;
    update.kept_scores = kept_scores.data();
    update.kept_labels = kept_labels.data();
    update.kept_weights = kept_weights.data();
    update.kept_users = kept_users.data();
    update.users = users.data();
    for (int i = 0; i < 2; ++i) {
      this->replay([&](auto stream) {
        MetricUpdates updates{};
        updates.count = 1;
        updates.at[0] = update;
        update_metrics(stream, updates);
      });
    }
    auto const words = this->read(tally);
    EXPECT_EQ(words[Tally::examples], static_cast<std::uint64_t>(2 * rows));
    EXPECT_EQ(words[this->kWords - 1], 0U);
    auto const found = this->read(kept_scores);
    for (std::int64_t i = 0; i < capacity; ++i) {
      ASSERT_EQ(found[static_cast<std::size_t>(i)],
                host_scores[static_cast<std::size_t>(i % rows)]);
    }
    for (auto const label : this->read(kept_labels)) {
      ASSERT_EQ(label, 1);
    }
    for (auto const weight : this->read(kept_weights)) {
      ASSERT_EQ(weight, 1.0F);
    }
  }
}

TYPED_TEST(MetricUpdateTest, one_launch_updates_metrics_of_different_batches) {
  auto const scores = this->upload(std::vector<float>(3000, 0.0F));
  auto const labels = this->upload(std::vector<float>(3000, 1.0F));
  auto const few_scores = this->upload(std::vector<float>(10, 0.0F));
  auto const few_labels = this->upload(std::vector<float>(10, 0.25F));
  auto const of_many = this->empty_tally();
  auto const of_few = this->empty_tally();
  auto const of_none = this->empty_tally();
  auto const count = this->upload(std::vector<std::int64_t>{7});
  MetricUpdates updates{};
  updates.count = 3;
  updates.at[0] = this->update_of(MetricKind::loss, scores, labels, of_many);
  updates.at[1] = this->update_of(MetricKind::calibration, few_scores, few_labels, of_few);
  updates.at[1].count = count.data();
  updates.at[2] = this->update_of(MetricKind::accuracy, few_scores, few_labels, of_none);
  updates.at[2].rows = 0;
  this->replay([&](auto stream) { update_metrics(stream, updates); });
  auto const many = this->read(of_many);
  EXPECT_EQ(many[Tally::examples], 3000U);
  EXPECT_NEAR(value_of(&many[Tally::terms]), 3000 * std::log(2.0), 1e-9);
  auto const few = this->read(of_few);
  EXPECT_EQ(few[Tally::examples], 7U);
  EXPECT_EQ(value_of(&few[Tally::terms]), 3.5);
  EXPECT_EQ(value_of(&few[Tally::positives]), 1.75);
  EXPECT_EQ(this->read(of_none), std::vector<std::uint64_t>(this->kWords));
}

TYPED_TEST(MetricUpdateTest, ranked_area_counts_pairs_in_whole_numbers) {
  for (std::int64_t const count : {1, 2, 31, 2047, 2048, 2049, 10'000}) {
    std::vector<float> scores;
    std::vector<std::uint8_t> labels;
    std::uint64_t positive = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      scores.push_back(static_cast<float>(this->random.integer(-50, 50)));
      labels.push_back(static_cast<std::uint8_t>(this->random.integer(0, 1)));
      positive += labels.back();
    }
    std::vector<std::uint64_t> positives(101);
    std::vector<std::uint64_t> negatives(101);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      ++(labels[i] != 0 ? positives : negatives)[static_cast<std::size_t>(scores[i] + 50.0F)];
    }
    std::uint64_t twice_won = 0;
    std::uint64_t below = 0;
    for (std::size_t s = 0; s < 101; ++s) {
      twice_won += positives[s] * (2 * below + negatives[s]);
      below += negatives[s];
    }
    auto const result = this->template poisoned<std::uint64_t>(kRankedAreaWords);
    auto const workspace = this->template poisoned<std::uint8_t>(
        static_cast<std::int64_t>(ranked_area_workspace_bytes(count, false)));
    auto const device_scores = this->upload(scores);
    auto const device_labels = this->upload(labels);
    ranked_area(this->stream(),
                {.count = count,
                 .scores = device_scores.data(),
                 .labels = device_labels.data(),
                 .weights = nullptr,
                 .weight_bits = 0,
                 .groups = nullptr,
                 .group_count = nullptr,
                 .workspace = workspace.data(),
                 .result = result.data()});
    auto const words = this->read(result);
    EXPECT_EQ(words[kTwiceWon] + (words[kTwiceWon + 1] << 32U), twice_won) << count;
    EXPECT_EQ(words[kPositiveWeight], positive);
    EXPECT_EQ(words[kNegativeWeight], static_cast<std::uint64_t>(count) - positive);
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
