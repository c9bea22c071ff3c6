// SPDX-License-Identifier: Apache-2.0
#include "serve/published.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace msstream::serve {
namespace {

/// A value that records its destruction.
struct Canary {
  explicit Canary(int value) : number(value) {}
  ~Canary() { alive = false; }
  int number;
  std::atomic<bool> alive{true};
};

TEST(Published, who_replaces_a_value_waits_for_its_last_use) {
  Published<Canary> published(std::make_unique<Canary>(1));
  auto& use = published.acquire();
  std::atomic<bool> replaced{false};
  std::thread replaces([&] {
    published.replace(std::make_unique<Canary>(2));
    replaced = true;
  });
  while (true) {
    auto& later = published.acquire();
    bool const is_new = later.value->number == 2;
    published.release(later);
    if (is_new) {
      break;
    }
    std::this_thread::yield();
  }
  EXPECT_FALSE(replaced);
  EXPECT_TRUE(use.value->alive);
  published.release(use);
  replaces.join();
}

TEST(Published, users_see_whole_values_that_are_there) {
  Published<Canary> published(std::make_unique<Canary>(0));
  std::atomic<bool> stop{false};
  std::atomic<int> gone{0};
  std::atomic<int> uses{0};
  std::vector<std::thread> users;
  for (int i = 0; i < 3; ++i) {
    users.emplace_back([&] {
      for (int newest = 0; !stop;) {
        auto& use = published.acquire();
        gone += use.value->alive && use.value->number >= newest ? 0 : 1;
        newest = use.value->number;
        published.release(use);
        ++uses;
        std::this_thread::yield();
      }
    });
  }
  for (int i = 1; i <= 500; ++i) {
    published.replace(std::make_unique<Canary>(i));
    for (auto const before = uses.load(); uses == before;) {
      std::this_thread::yield();
    }
  }
  stop = true;
  for (auto& user : users) {
    user.join();
  }
  EXPECT_EQ(gone, 0);
}

}  // namespace
}  // namespace msstream::serve
