// SPDX-License-Identifier: Apache-2.0
#include "memory/run_threads.hpp"
#include "memory/runtimes.hpp"

#include <msstream/stream/stream_pool.hpp>
#include <msstream/tensor/tensor.hpp>

#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <cstdint>

namespace msstream::testing {
namespace {

/// Two groups that take small blocks in turn and give them back at once: one block is enough.
template <class R>
class Rivalry : public RuntimeTest<R> {
 protected:
  static constexpr int kTurns = 64;
  static constexpr std::int64_t kBytes = kMiB;

  void take_turn(int group) {
    StreamScope const scope(pool[group]);
    Tensor<std::uint8_t, R> const block(device, {kBytes});
    last[static_cast<std::size_t>(group)] = block.data();
  }
  void take_turns_of_threads() {
    std::barrier turn(2);
    run_threads(2, [&](int thread) {
      for (int i = 0; i < kTurns; ++i) {
        if (i % 2 == thread) {
          this->take_turn(thread);
        }
        turn.arrive_and_wait();
      }
    });
  }

  Device<R> device{
      {.memory = {.limit_bytes = 2 * kMiB, .max_growth_bytes = std::size_t{kMiB} / 2}}};
  StreamPool<R> pool{device, {.groups = 2}};
  std::array<void const*, 2> last{};
};
TYPED_TEST_SUITE(Rivalry, Runtimes, RuntimeNames);

TYPED_TEST(Rivalry, of_two_threads_ends_with_a_block_for_each) {
  this->take_turns_of_threads();
  EXPECT_NE(this->last[0], this->last[1]);
}

TYPED_TEST(Rivalry, is_none_between_streams_of_one_thread) {
  for (int i = 0; i < this->kTurns; ++i) {
    this->take_turn(i % 2);
  }
  EXPECT_EQ(this->last[0], this->last[1]);
}

TYPED_TEST(Rivalry, goes_on_where_there_is_no_more_memory) {
  Tensor<std::uint8_t, TypeParam> const rest(this->device, {this->kBytes});
  this->take_turns_of_threads();
  EXPECT_EQ(this->last[0], this->last[1]);
}

}  // namespace
}  // namespace msstream::testing
