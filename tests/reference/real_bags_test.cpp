// SPDX-License-Identifier: Apache-2.0
#include "datasets/data_files.hpp"
#include "ops/ops_fixture.hpp"

#include <msstream/ops/embedding.hpp>
#include <msstream/ops/ids.hpp>
#include <msstream/ops/jagged.hpp>
#include <msstream/ops/segment.hpp>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

/// Tests operations on real data. A bag holds the items of one user: few for most users, and
/// thousands for some.
namespace msstream::testing {
namespace {

using ops::Bags;
using ops::Pooling;

struct Users {
  Integers items;
  Integers offsets{0};
};

Users read_users(std::filesystem::path const& path) {
  Users users;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::int64_t user = 0;
    words >> user;
    for (std::int64_t item = 0; words >> item;) {
      users.items.push_back(item);
    }
    users.offsets.push_back(static_cast<std::int64_t>(users.items.size()));
  }
  return users;
}

template <class R>
class RealBagsTest : public OpsTest<R> {
 protected:
  void SetUp() override {
    OpsTest<R>::SetUp();
    auto const path = test_data("amazon_book/train.txt");
    if (!this->IsSkipped() && !std::filesystem::exists(path)) {
      GTEST_SKIP() << "no " << path << ": set MSSTREAM_TEST_DATA";
    }
    if (!this->IsSkipped()) {
      users = read_users(path);
    }
  }

  Users users;
};
TYPED_TEST_SUITE(RealBagsTest, Runtimes, RuntimeNames);

TYPED_TEST(RealBagsTest, lengths_offsets_and_dense_rows_round_trip) {
  auto const items = this->put(this->users.items);
  auto const offsets = this->put(this->users.offsets);
  auto const lengths = ops::offsets_to_lengths(offsets);
  EXPECT_EQ(to_host(ops::lengths_to_offsets(lengths)), this->users.offsets);
  auto const longest = to_host(lengths);
  auto const max_length = *std::max_element(longest.begin(), longest.end());
  // Takes the first 2,000 users: the longest bag has thousands of items, so that the dense form of
  // all users would take gigabytes.
  constexpr std::int64_t kUsers = 2000;
  auto const few = offsets.rows(0, kUsers + 1);
  auto const count = this->users.offsets[kUsers];
  auto const dense = ops::jagged_to_dense(items.rows(0, count), few, max_length, std::int64_t{-1});
  EXPECT_EQ(to_host(ops::dense_to_jagged(dense, few, count)),
            Integers(this->users.items.begin(), this->users.items.begin() + count));
}

TYPED_TEST(RealBagsTest, distinct_items_give_the_items_back) {
  auto const unique = ops::unique(this->put(this->users.items));
  auto const values = to_host(unique.values);
  auto const counts = to_host(unique.counts);
  std::map<std::int64_t, std::int64_t> expected;
  for (auto const item : this->users.items) {
    ++expected[item];
  }
  ASSERT_EQ(to_host(unique.count).front(), static_cast<std::int64_t>(expected.size()));
  std::size_t u = 0;
  for (auto const& [item, count] : expected) {
    ASSERT_EQ(values[u], item);
    ASSERT_EQ(counts[u++], count);
  }
  Integers back;
  for (auto const inverse : to_host(unique.inverse)) {
    back.push_back(values[static_cast<std::size_t>(inverse)]);
  }
  EXPECT_EQ(back, this->users.items);
}

// Row i of the table holds the number i modulo 128, so that sums and gradients are whole numbers
// and exact.
TYPED_TEST(RealBagsTest, sums_of_items_and_their_gradients) {
  constexpr std::int64_t kWidth = 8;
  auto const items =
      *std::max_element(this->users.items.begin(), this->users.items.end()) + std::int64_t{1};
  Floats rows;
  for (std::int64_t item = 0; item < items; ++item) {
    rows.insert(rows.end(), kWidth, static_cast<float>(item % 128));
  }
  Bags<TypeParam> const bags(this->put(this->users.items), this->put(this->users.offsets));
  auto const pooled = to_host(ops::embedding_lookup(this->put(rows, {items, kWidth}), bags));
  std::map<std::int64_t, float> bags_of_item;
  for (std::int64_t bag = 0; bag < bags.bags(); ++bag) {
    float sum = 0;
    auto const b = static_cast<std::size_t>(bag);
    for (auto place = this->users.offsets[b]; place < this->users.offsets[b + 1]; ++place) {
      auto const item = this->users.items[static_cast<std::size_t>(place)];
      sum += static_cast<float>(item % 128);
      bags_of_item[item] += 1.0F;
    }
    ASSERT_EQ(pooled[b * kWidth], sum) << "bag " << bag;
  }
  auto const unique = ops::deduplicate(bags, items);
  auto const gradients = ops::embedding_gradient(
      bags,
      unique,
      items,
      Pooling::sum,
      this->put(Floats(static_cast<std::size_t>(bags.bags() * kWidth), 1.0F),
                {bags.bags(), kWidth}));
  auto const values = to_host(gradients.values);
  auto const ids = to_host(gradients.ids);
  ASSERT_EQ(to_host(gradients.count).front(), static_cast<std::int64_t>(bags_of_item.size()));
  std::size_t u = 0;
  for (auto const& [item, count] : bags_of_item) {
    ASSERT_EQ(ids[u], item);
    ASSERT_EQ(values[u++ * kWidth], count);
  }
}

}  // namespace
}  // namespace msstream::testing
