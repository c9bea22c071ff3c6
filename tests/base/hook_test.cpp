// SPDX-License-Identifier: Apache-2.0
#include "base/hook.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace msstream {
namespace {

TEST(Hook, is_there_from_begin_to_end) {
  detail::Hook<int const> hook;
  EXPECT_EQ(hook.current(), nullptr);
  EXPECT_TRUE(hook.begin(std::make_shared<int const>(3)));
  EXPECT_EQ(*hook.current(), 3);
  EXPECT_FALSE(hook.begin(std::make_shared<int const>(4)));
  EXPECT_EQ(*hook.current(), 3);
  hook.end();
  EXPECT_EQ(hook.current(), nullptr);
  EXPECT_TRUE(hook.begin(std::make_shared<int const>(4)));
  EXPECT_EQ(*hook.current(), 4);
}

TEST(Hook, whoever_has_it_keeps_it) {
  detail::Hook<int> hook;
  auto const object = std::make_shared<int>(3);
  EXPECT_TRUE(hook.begin(object));
  auto const kept = hook.current();
  hook.end();
  EXPECT_EQ(object.use_count(), 2);
  EXPECT_EQ(*kept, 3);
}

TEST(Hook, may_end_while_others_ask) {
  detail::Hook<std::vector<int> const> hook;
  std::atomic<bool> over{false};
  std::thread asker([&] {
    while (!over.load()) {
      if (auto const current = hook.current()) {
        ASSERT_EQ(current->back(), 7);
      }
    }
  });
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(hook.begin(std::make_shared<std::vector<int> const>(100, 7)));
    hook.end();
  }
  over.store(true);
  asker.join();
}

TEST(Hook, threads_that_ask_share_no_count) {
  detail::Hook<int const> hook;
  EXPECT_TRUE(hook.begin(std::make_shared<int const>(3)));
  auto const mine = hook.current();
  std::thread([&] {
    auto const others = hook.current();
    EXPECT_EQ(others.get(), mine.get());
    EXPECT_EQ(others.use_count(), 2);  // one reference of the hook and one of this thread
    EXPECT_EQ(mine.use_count(), 2);
  }).join();
}

}  // namespace
}  // namespace msstream
