// SPDX-License-Identifier: Apache-2.0
#include "memory/blocks/block_list.hpp"

#include <msstream/runtime/host.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::ElementsAreArray;
using HostBlock = memory::Block;

class BlockListTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::vector<HostBlock const*> from_the_oldest() const {
    std::vector<HostBlock const*> seen;
    for (auto const* block = list.oldest(); block != nullptr; block = list.newer_than(*block)) {
      seen.push_back(block);
    }
    return seen;
  }
  [[nodiscard]] std::vector<HostBlock const*> from_the_newest() const {
    std::vector<HostBlock const*> seen;
    for (auto const* block = list.newest(); block != nullptr; block = list.older_than(*block)) {
      seen.push_back(block);
    }
    return seen;
  }

  std::array<HostBlock, 5> blocks;
  memory::BlockList list;
};

TEST_F(BlockListTest, has_what_entered_and_did_not_leave) {
  std::mt19937 random(1);
  std::vector<HostBlock const*> expected;
  for (int step = 0; step < 1000; ++step) {
    auto& block = blocks[random() % blocks.size()];
    auto const place = std::find(expected.begin(), expected.end(), &block);
    if (place == expected.end()) {
      list.add(block);
      expected.push_back(&block);
    } else {
      list.remove(block);
      expected.erase(place);
    }
    ASSERT_THAT(from_the_oldest(), ElementsAreArray(expected));
    std::vector<HostBlock const*> const reversed(expected.rbegin(), expected.rend());
    ASSERT_THAT(from_the_newest(), ElementsAreArray(reversed));
    ASSERT_EQ(list.empty(), expected.empty());
    ASSERT_EQ(list.has_several(), expected.size() > 1);
  }
}

}  // namespace
}  // namespace msstream::testing
