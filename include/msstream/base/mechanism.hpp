// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#if MSSTREAM_TEST_SWITCHES
#include <atomic>
#endif

namespace msstream {

/// What keeps the order of work right. Tests switch each one off, to see that the checking tools
/// notice; docs/testing.md has the table.
enum class Mechanism : std::uint8_t {
  read_after_write,       ///< a read follows the last writes
  write_after_read,       ///< a write follows the reads since
  write_after_write,      ///< a write follows the last writes
  elision_by_number,      ///< a wait is elided only where the clock has the very number
  elision_by_completion,  ///< … or where the host has seen the work complete
  event_position,         ///< an event stands for what was launched before it was recorded
  event_clock,            ///< an event brings the clock of its stream as it was then
  event_recycling,        ///< an event is recorded again only when nobody holds it
  stream_slot_reuse,      ///< a stream's place is taken again only when its work is over
  launch_handshake,       ///< an event is recorded only after the work that it is to stand for
  reuse_follows_uses,     ///< memory keeps the record of its uses when it changes its owner
  reuse_of_frozen,        ///< … also of uses that were not tracked
  pinned_reuse,           ///< pinned memory is given out when its copies are over
  host_wait,              ///< the host waits for copies before it uses their memory
  holder_hold,            ///< work under a TensorHolder follows the tensors' earlier uses
  holder_release,         ///< … and their later uses follow it
  release_after_uses,     ///< memory goes back to the runtime when its last uses are over
  failure_propagation,    ///< what follows work that failed is not launched
  capture_join,           ///< a captured graph ends with the work of all its streams
  gradient_accumulation,  ///< a gradient's parts are added in one order, whatever their streams
  serve_slot_reuse,       ///< a slot's buffers are read and filled again when its launch is over
  serve_version_kept,     ///< a pool's old model stays until its last query is over
};

#if MSSTREAM_TEST_SWITCHES
inline std::atomic<int> switched_off_mechanism{-1};
/// Whether the mechanism does its work.
inline bool works(Mechanism mechanism) noexcept {
  return switched_off_mechanism.load(std::memory_order_relaxed) != static_cast<int>(mechanism);
}
#else
/// Whether the mechanism does its work: always, but in tests of the checking tools.
constexpr bool works(Mechanism) noexcept {
  return true;
}
#endif

}  // namespace msstream
