// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// A fake NCCL for machines without GPUs, whose ranks are threads of the process with one fake
/// device. It implements NCCL's rules for communicators whose calls block: all ranks must come to
/// the constructor, and to the first collective of each kind. Collectives are on their streams, but
/// move no data. Thread-safe.
namespace fake_nccl {

/// Returns the number of communicators that have not been destroyed or aborted.
[[nodiscard]] int live();

/// Returns the number of calls of a function since the program began.
[[nodiscard]] std::uint64_t calls(std::string_view name);

/// Returns the number of windows that the communicators which have not ended have.
[[nodiscard]] int windows();

/// Returns the most thread blocks of kernels, and the policy for thread blocks, that the newest
/// communicator was given.
[[nodiscard]] std::pair<int, int> blocks_and_policy();

/// Returns the violations of NCCL's rules since the last call, one sentence each: calls with a
/// communicator that has ended, communicators that do not block, windows of other memory than
/// NCCL's or that differ between ranks, and ends that wait for a captured graph (the end of a
/// communicator that is aborted may). Destructors that graphs call, on a thread of CUDA and later,
/// are waited for without a violation.
[[nodiscard]] std::vector<std::string> take_misuses();

/// Lets the next collective of each kind of every communicator wait for the other ranks once more,
/// as NCCL does when it chooses another algorithm.
void forget_connections();

/// A guard. While it lives, the next calls of a function by a rank fail; of ncclMemAlloc, the next
/// call of any rank.
class FailingCall {
 public:
  FailingCall(std::string name, int rank);
  ~FailingCall();
  FailingCall(FailingCall const&) = delete;
  FailingCall& operator=(FailingCall const&) = delete;
};

/// Returns the number of calls in progress that end a communicator.
[[nodiscard]] int ending();

/// Lets calls that end communicators block from now on, as when ranks of other processes end theirs
/// later, until release_ends() is called. They then take a while.
void hold_ends();
void release_ends();

/// Lets ncclCommWindowDeregister() block from now on, as while it waits for collectives in flight,
/// until its communicator is aborted or release_deregistrations() is called.
void hold_deregistrations();
void release_deregistrations();

/// Ends the constructors that wait for ranks which do not come, with an error, and waits for them.
void end_constructors();

}  // namespace fake_nccl
