// SPDX-License-Identifier: Apache-2.0
#include "order/oracle.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace msstream::order::testing {
namespace {

TEST(Oracle, orders_a_stream_with_itself) {
  Oracle oracle;
  auto const a = oracle.append(0);
  auto const b = oracle.append(0);
  EXPECT_TRUE(oracle.precedes(a, b));
  EXPECT_FALSE(oracle.precedes(b, a));
  EXPECT_FALSE(oracle.precedes(a, a));
  EXPECT_TRUE(oracle.precedes_next(b, 0));
}

TEST(Oracle, does_not_order_streams_by_themselves) {
  Oracle oracle;
  auto const a = oracle.append(0);
  auto const b = oracle.append(1);
  EXPECT_FALSE(oracle.precedes(a, b));
  EXPECT_FALSE(oracle.precedes_next(a, 1));
  EXPECT_FALSE(oracle.precedes_next(a, 2)) << "a stream without work";
}

TEST(Oracle, follows_chains_of_waits) {
  // The queue of stream 0 is [a]; that of stream 1 is [wait for a, b]; that of stream 2 is [wait
  // for b, c].
  Oracle oracle;
  auto const a = oracle.append(0);
  oracle.append(1, a);
  auto const b = oracle.append(1);
  oracle.append(2, b);
  auto const c = oracle.append(2);
  auto const later = oracle.append(0);
  EXPECT_TRUE(oracle.precedes(a, c));
  EXPECT_TRUE(oracle.precedes_next(a, 2));
  EXPECT_FALSE(oracle.precedes(c, later));
}

TEST(Oracle, orders_all_later_work_after_what_the_host_saw) {
  Oracle oracle;
  auto const a = oracle.append(0);
  auto const before = oracle.append(1);
  oracle.host_waits_for(a);
  auto const after = oracle.append(2);
  EXPECT_FALSE(oracle.precedes(a, before));
  EXPECT_TRUE(oracle.precedes_next(a, 1));
  EXPECT_TRUE(oracle.precedes(a, after));
}

TEST(Oracle, holds_more_nodes_than_a_word_has_bits) {
  Oracle oracle;
  std::vector<Oracle::Node> chain;
  for (int i = 0; i < 200; ++i) {
    chain.push_back(oracle.append(0));
    oracle.append(1);
  }
  EXPECT_TRUE(oracle.precedes(chain.front(), chain.back()));
  EXPECT_FALSE(oracle.precedes(chain[100], oracle.tail(1)));
}

}  // namespace
}  // namespace msstream::order::testing
