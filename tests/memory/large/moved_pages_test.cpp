// SPDX-License-Identifier: Apache-2.0
// Tests that free pieces of memory are combined to one block without a wait of the host, although
// the device still uses them.
#include "memory/large/moved_pages.hpp"

#include "memory/behind_gate.hpp"
#include "memory/device/device_state.hpp"
#include "memory/watched_runtime.hpp"

#include <msstream/tensor/copy.hpp>

#include <gmock/gmock.h>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;

template <class TypeParam>
class MovedPages : public RuntimeTest<TypeParam> {
 protected:
  void SetUp() override {
    RuntimeTest<TypeParam>::SetUp();
    if (!this->IsSkipped() && !program.has_pages()) {
      GTEST_SKIP() << "no pages on this machine: pieces are not put together";
    }
  }
  [[nodiscard]] Watch& watch() { return watch_of(program.device); }

  PiecesInUse<Watched<TypeParam>> program;
  Gate gate;  ///< destroyed, and so opened, before the program, which waits for the work behind it
};
TYPED_TEST_SUITE(MovedPages, Runtimes, RuntimeNames);

TYPED_TEST(MovedPages, that_are_in_use_are_not_waited_for_by_the_host_but_by_their_next_owner) {
  auto& program = this->program;
  program.use_and_free_pieces(this->gate);
  EXPECT_TRUE(returns_behind(this->gate, [&] { program.take_whole(); }));
  EXPECT_EQ(this->watch().left_bytes, program.kPieceBytes);
  auto const next = program.issue_next();
  EXPECT_FALSE(next.query());
  this->gate.open();
  next.synchronize();
  EXPECT_THAT(program.journal.entries(), ElementsAre("last", "next"));
  EXPECT_LE(this->watch().most_device_bytes, program.kLimit);
}

TYPED_TEST(MovedPages, leave_what_is_between_them_alone) {
  auto& program = this->program;
  program.allocate_pieces();
  fill_bytes(*program.between, 7);
  program.device.default_group().synchronize();
  program.use_and_free_pieces(this->gate);
  program.take_whole();
  fill_bytes(*program.whole, 1);
  this->gate.open();
  EXPECT_EQ(to_host(program.between->rows(0, 3)), std::vector<std::uint8_t>(3, 7));
  auto const last = program.between->shape()[0] - 3;
  EXPECT_EQ(to_host(program.between->rows(last, last + 3)), std::vector<std::uint8_t>(3, 7));
}

TYPED_TEST(MovedPages, leave_their_old_addresses_when_their_uses_are_over) {
  auto& program = this->program;
  program.use_and_free_pieces(this->gate);
  program.take_whole();
  program.device.state()->memory.return_cached_memory();
  EXPECT_EQ(this->watch().left_bytes, program.kPieceBytes) << "the work is not over";
  this->gate.open();
  program.pool.synchronize();
  program.device.state()->memory.return_cached_memory();
  EXPECT_EQ(this->watch().left_bytes, 0U);
  program.whole.reset();
  program.device.state()->memory.return_cached_memory();
  EXPECT_EQ(this->watch().mapped_bytes, std::size_t(program.between->shape()[0]));
  EXPECT_EQ(program.device.memory_statistics().reserved_bytes, this->watch().mapped_bytes);
}

TYPED_TEST(MovedPages, that_are_in_use_when_all_goes_are_waited_for) {
  auto const watch = std::make_shared<Watch>();
  Gate gate;
  Journal journal;
  {
    PiecesInUse<Watched<TypeParam>> program({.watch = watch});
    program.use_and_free_pieces(gate);
    program.take_whole();
    watch_waits(*watch, gate, program.journal);
    journal = program.journal;
  }
  watch->host_waits = [] {};
  watch->gives_back = [] {};
  ASSERT_FALSE(journal.entries().empty());
  EXPECT_EQ(journal.entries().front(), "last");
  EXPECT_EQ(to_string(*watch), Census::nothing());
}

}  // namespace
}  // namespace msstream::testing
