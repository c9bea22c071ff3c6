// SPDX-License-Identifier: Apache-2.0
// Tests that switch off one mechanism of memory reuse at a time. The stress test of memory reuse
// must notice it, on a runtime that checks nothing.
#include "memory/large/moved_pages.hpp"
#include "memory/reuse/tagged_stress.hpp"
#include "trust/switched_off.hpp"

#include <msstream/runtime/checked.hpp>
#include <msstream/runtime/host.hpp>

#include <gmock/gmock.h>

#include <cstdint>

namespace msstream::testing {
namespace {

[[nodiscard]] std::int64_t mismatches() {
  return tagged_stress<Host, HostTagKernels>(stress_without_order()).mismatches;
}

TEST(ReuseMutation, the_stress_finds_memory_that_forgets_its_uses) {
  SwitchedOff const off(Mechanism::reuse_follows_uses);
  EXPECT_GT(mismatches(), 0);
}
TEST(ReuseMutation, the_stress_finds_waits_that_are_left_out_too_early) {
  SwitchedOff const off(Mechanism::elision_by_number);
  EXPECT_GT(mismatches(), 0);
}
TEST(ReuseMutation, pages_that_forget_their_uses_are_written_too_early) {
  SwitchedOff const off(Mechanism::reuse_follows_uses);
  PiecesInUse<Host> program;
  Gate gate;
  program.use_and_free_pieces(gate);
  program.take_whole();
  program.issue_next().synchronize();
  gate.open();
  program.pool.synchronize();
  EXPECT_THAT(program.journal.entries(), ::testing::ElementsAre("next", "last"));
}
/// Joins pages that are in use to one block, uses and releases the block, and returns the number of
/// findings of the checker.
[[nodiscard]] std::size_t findings_of_moved_pages() {
  PiecesInUse<Checked<Host>> program({.check = {.mode = CheckMode::count, .report_path = {}}});
  Gate gate;
  program.use_and_free_pieces(gate);
  program.take_whole();
  auto const next = program.issue_next();
  gate.open();
  next.synchronize();
  program.pool.synchronize();
  return program.device.runtime().checker()->count();
}
TEST(ReuseMutation, pages_that_forget_their_uses_are_reported) {
  SwitchedOff const off(Mechanism::reuse_follows_uses);
  EXPECT_GT(findings_of_moved_pages(), 0U);
}
TEST(ReuseMutation, pages_that_remember_their_uses_are_not) {
  EXPECT_EQ(findings_of_moved_pages(), 0U);
}
TEST(ReuseMutation, the_stress_finds_nothing_when_all_works) {
  EXPECT_EQ(mismatches(), 0);
}

}  // namespace
}  // namespace msstream::testing
