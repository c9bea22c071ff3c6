// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#if MSSTREAM_WITHOUT_MECHANISMS
#error "this file is compiled once, without switches; src/CMakeLists.txt lists those with switches"
#endif

#if MSSTREAM_TEST_SWITCHES
#include <atomic>
#endif

namespace msstream::detail {

/// The mechanisms that keep the order of work right. Tests switch each of them off, to check that
/// the checking tools find the races that follow; docs/testing-reference.md lists them.
enum class Mechanism : std::uint8_t {
  read_after_write,   ///< a read waits for the last writes
  write_after_read,   ///< a write waits for the reads since the last write
  write_after_write,  ///< a write waits for the last writes
  elision_by_number,  ///< a wait is elided only if the stream's clock has the operation's number
  elision_by_completion,  ///< a wait is also elided if the host has seen the operation complete
  event_position,         ///< an event covers only the operations launched before it was recorded
  event_clock,            ///< an event carries its stream's clock as of the time of recording
  event_recycling,        ///< an event is recorded again only when it has no holder
  stream_slot_reuse,      ///< a stream slot is reused only when its work is complete
  launch_handshake,       ///< an event is recorded only after the operation that it must cover is
                          ///< launched
  reuse_follows_uses,     ///< a block keeps the record of its uses when it changes its owner
  reuse_of_frozen,        ///< a block that is frozen no more counts its untracked uses too
  pinned_reuse,           ///< pinned memory is reused only when its copies are complete
  host_wait,              ///< the host waits for copies before it uses their memory
  holder_hold,            ///< work under a TensorHolder waits for the tensors' earlier uses
  holder_release,         ///< later uses of a TensorHolder's tensors wait for its work
  release_after_uses,   ///< memory is returned to the runtime only when its last uses are complete
  failure_propagation,  ///< an operation is not launched if one that it depends on failed
  capture_join,         ///< a captured graph ends with the work of all its streams
  gradient_accumulation,  ///< the parts of a gradient are added in one order, whatever their
                          ///< streams
  serve_slot_reuse,    ///< a slot's buffers are read and refilled only when its launch is complete
  serve_version_kept,  ///< a pool's old model stays alive until its last query is complete
};

#if MSSTREAM_TEST_SWITCHES
inline std::atomic<int> switched_off_mechanism{-1};
/// Returns whether the mechanism is switched on.
inline bool works(Mechanism mechanism) noexcept {
  return switched_off_mechanism.load(std::memory_order_relaxed) != static_cast<int>(mechanism);
}
#else
/// Returns whether the mechanism is switched on, which is always the case except in the tests of
/// the checking tools.
constexpr bool works(Mechanism) noexcept {
  return true;
}
#endif

}  // namespace msstream::detail
