// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/cases/trace_builder.hpp"

#include <array>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace msstream::overlap::cases {

/// Runs the program of a TraceBuilder, forward in time. The rules, as CUDA documents them:
///
/// - Work of one stream runs in its order. A stream that waits for an event waits for what the
///   event's stream had been given when the event was recorded, by the last recording before.
/// - Work of the legacy default stream waits for all earlier work of blocking streams, and later
///   work of theirs waits for it.
/// - A hardware queue gives its kernels to the multiprocessors in the order of their calls: one
///   that still waits for its stream or an event holds up kernels of other streams behind it.
/// - Blocks start while multiprocessors have threads, block slots, registers and shared memory
///   free, those of higher priority first, then those of the kernel that was ready first. Running
///   blocks are not interrupted.
/// - Each direction has one copy engine, which takes copies in the order in which they are ready,
///   regardless of priorities.
/// - Kernels that together need more than the memory's bandwidth slow each other down.
class Simulation {
 public:
  explicit Simulation(TraceBuilder const& program);
  [[nodiscard]] Recording run();

 private:
  static constexpr Ns kNever = std::numeric_limits<Ns>::max();
  using Do = HostThread::Do;
  using Step = HostThread::Step;

  /// Threads, block slots, registers and bytes of shared memory.
  using Resources = std::array<std::int64_t, 4>;

  struct Item {
    Activity activity;
    ActivityKind kind = ActivityKind::kernel;
    Kernel kernel;
    Index stream = 0;
    int channel = 0;
    int priority = 0;
    std::vector<Index> after;
    Ns arrival = 0;
    Ns copy_time = 0;
    Ns ready_at = -1;  ///< when all that it follows is complete; -1: not yet known
    std::int64_t blocks_left = 0;
    std::int64_t blocks_running = 0;
    Ns block_time = 0;
    bool given = false;  ///< to the multiprocessors or to a copy engine
    bool begun = false;
    bool done = false;
  };
  /// Blocks of one kernel that began together.
  struct Batch {
    Index item = 0;
    std::vector<std::int64_t> blocks;  ///< on each multiprocessor
    double left = 0;                   ///< ns of undisturbed work
  };
  struct Thread {
    HostThread const* program = nullptr;
    std::size_t next = 0;
    Ns free_at = 0;
    Ns call_begin = 0;
    /// Set while a call blocks; `resume` continues it at the time when `until` holds.
    std::function<bool()> until = {};
    std::function<void(Ns)> resume = {};
    std::vector<Index> open_ranges = {};
  };
  struct StreamState {
    std::vector<Index> last;   ///< what the next work must follow
    std::vector<Index> waits;  ///< from waits since the last work
  };
  struct EventState {
    std::vector<Index> items;
    Index call = kNone;
    Index stream = kNone;
  };

  void step(Index thread, Ns now);
  void issue_launch(Index thread, Step const& step, Ns now);
  void issue_copy(Index thread, Step const& step, Ns now);
  void launch_item(Index thread, Step const& step, Ns begin, Ns end);
  void synchronize(Index thread,
                   SyncKind kind,
                   std::vector<Index> items,
                   Sync sync,
                   Ns now,
                   char const* name,
                   CallKind call_kind,
                   Ns cost_after);
  Index add_call(Index thread, char const* name, CallKind kind, Ns begin, Ns end);
  Index add_item(Item item, Index call, Ns arrival, std::vector<Index> after);
  void put_in_stream(Item item, Index call, Ns arrival);
  std::vector<Index> order_of(Index stream) const;
  [[nodiscard]] std::vector<Index> all_items() const;
  [[nodiscard]] bool are_done(std::vector<Index> const& items) const;
  [[nodiscard]] std::size_t waiting_launches() const;

  [[nodiscard]] static Resources of_block(Kernel const& kernel);
  [[nodiscard]] static std::int64_t blocks_beside(Resources const& free, Kernel const& kernel);
  std::vector<std::int64_t> place_blocks(Kernel const& kernel, std::int64_t count);
  void find_ready(Ns now);
  void give(Ns now);
  void start_blocks(Ns now);
  void start_copies(Ns now);
  [[nodiscard]] double slowdown() const;
  [[nodiscard]] double rate_of(Item const& item) const;
  [[nodiscard]] Ns next_device_time(Ns now) const;
  void advance(Ns from, Ns to);
  void finish(Index item, Ns now);
  void release_threads(Ns now);
  void write(Recording& recording) const;

  TraceBuilder const& program_;
  Gpu const& gpu_;
  Recording recording_;
  std::vector<Thread> threads_;
  std::vector<Item> items_;
  std::vector<StreamState> streams_;
  std::vector<EventState> events_;
  std::vector<Batch> batches_;
  std::vector<Index> waiting_kernels_;  ///< with blocks left, in the order in which they were given
  std::map<CopyDirection, std::vector<Index>> engines_;  ///< the first one of each runs
  std::optional<Index> lock_owner_;  ///< the thread that holds the context's lock
  Resources of_sm_{};
  std::vector<Resources> free_;  ///< of each multiprocessor
  std::int64_t graphs_ = 0;
};

}  // namespace msstream::overlap::cases
