// SPDX-License-Identifier: Apache-2.0
#include "base/sole_owner.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace msstream::detail {
namespace {

TEST(SoleOwner, tells_whether_an_object_is_shared) {
  auto const first = std::make_shared<int>(1);
  EXPECT_TRUE(is_sole_owner(first));
  auto second = first;
  EXPECT_FALSE(is_sole_owner(first));
  second.reset();
  EXPECT_TRUE(is_sole_owner(first));
}

// ThreadSanitizer reports a race if a former owner's read is not before the return.
TEST(SoleOwner, what_former_owners_did_is_before) {
  int sum = 0;
  for (int round = 0; round < 500; ++round) {
    auto const value = std::make_shared<int>(round);
    int read = 0;
    std::thread owner([copy = value, &read]() mutable {
      read = *copy;
      copy.reset();
    });
    while (!is_sole_owner(value)) {
    }
    sum += read - round;
    *value = 0;
    owner.join();
  }
  EXPECT_EQ(sum, 0);
}

}  // namespace
}  // namespace msstream::detail
