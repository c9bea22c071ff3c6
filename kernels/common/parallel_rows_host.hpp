// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace msstream::ops::kernels {

/// A team of helper threads that share the work of calls with many items.
///
/// States: a helper sleeps until a call is open, then claims ranges of the oldest call until none
/// is left. A call closes when all its ranges are claimed. The threads start with the first call
/// that has several ranges. Ownership: a call lives on its caller's stack, and the caller leaves it
/// when no helper works on it any more. Memory ordering: a relaxed counter hands out the ranges.
/// Helpers enter and leave a call under the mutex under which the caller opens and leaves it, so
/// that helpers see what the caller wrote before, and the caller sees what the helpers wrote.
class RangeTeam {
 public:
  explicit RangeTeam(int helpers) : helper_count_(helpers) {}
  /// Ends the helper threads. No thread may be in run().
  ~RangeTeam();
  RangeTeam(RangeTeam const&) = delete;
  RangeTeam& operator=(RangeTeam const&) = delete;

  /// Returns the number of threads that host kernels use, counting the calling thread: the value of
  /// MSSTREAM_HOST_KERNEL_THREADS, from 1 to 1024, or if the variable is not set, the number of
  /// processors of the machine. Throws what env::integer() throws.
  [[nodiscard]] static int threads_of_process();
  /// Returns the team of helper threads that all streams of the process share, which has
  /// threads_of_process() - 1 helpers.
  ///
  /// The team is the only object of the library that no other object owns. Processors belong to the
  /// process: a team per stream or per runtime would start several times as many threads as there
  /// are processors. A kernel could reach a team only through the queue that it was enqueued on.
  /// The number of helpers changes no result. The team is never destroyed: streams may work until
  /// the last static object is destroyed, and sleeping threads end with the process. After a
  /// fork(), the child makes its own team.
  [[nodiscard]] static RangeTeam& of_process();

  /// Calls `function(begin, end)` for ranges that together are [0, count), on the calling thread
  /// and on idle helpers of this team, as parallel_ranges() does with the process's team.
  template <class Function>
  void run(std::int64_t count, std::int64_t grain, Function&& function) {
    run_erased(count,
               grain,
               {[](void const* object, std::int64_t begin, std::int64_t end) {
                  (*static_cast<std::remove_reference_t<Function> const*>(object))(begin, end);
                },
                &function});
  }

 private:
  struct RangeFunction {
    void (*call)(void const* object, std::int64_t begin, std::int64_t end);
    void const* object;
  };
  class Call;

  void run_erased(std::int64_t count, std::int64_t grain, RangeFunction function);
  /// Starts the helper threads if they are not running. The caller must hold the lock.
  void start_helpers();
  void wake_helpers();
  void help();

  int helper_count_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Call*> open_;
  std::vector<std::thread> helpers_;
  bool stopping_ = false;
};

/// Calls `function(begin, end)` for ranges that together are [0, count), of at least `grain` items
/// each, on the calling thread and on idle threads of the process's team.
///
/// The caller waits only for ranges that a helper has begun, never for a helper to start. Fewer
/// than 2 * grain items are one call on the calling thread, which touches no shared state;
/// parallel_ranges() within a range makes one call too. `grain` must be 1 or more. If ranges throw,
/// one of the exceptions reaches the caller once all ranges that were begun have ended; the other
/// ranges are left out.
template <class Function>
void parallel_ranges(std::int64_t count, std::int64_t grain, Function&& function) {
  if (count / 2 >= grain) {
    RangeTeam::of_process().run(count, grain, function);
  } else if (count > 0) {
    function(std::int64_t{0}, count);
  }
}

/// The number of bytes that are worth waking a helper thread for: one processor copies them in 10
/// to 30 microseconds, and waking a helper takes about as long.
inline constexpr std::int64_t kGrainBytes = std::int64_t{256} << 10U;

/// Returns the number of items, of `bytes` each, that are worth waking a helper thread for.
[[nodiscard]] constexpr std::int64_t grain_of(std::int64_t bytes) {
  return std::max<std::int64_t>(1, kGrainBytes / std::max<std::int64_t>(1, bytes));
}

namespace detail {

/// Returns how many rows begin before item `item`, where a row with n positions has n + 1 items, so
/// that empty rows count as work too.
template <class Offsets>
[[nodiscard]] std::int64_t rows_before(Offsets const& offsets,
                                       std::int64_t rows,
                                       std::int64_t item) {
  std::int64_t low = 0;
  std::int64_t high = rows;
  while (low < high) {
    auto const row = low + (high - low) / 2;
    if (static_cast<std::int64_t>(offsets[row]) - offsets[0] + row < item) {
      low = row + 1;
    } else {
      high = row;
    }
  }
  return low;
}

}  // namespace detail

/// Calls `function(begin, end)` for ranges that together are the rows [0, rows), on the calling
/// thread and on idle helper threads. Row r has the positions [offsets[r], offsets[r + 1]), and the
/// offsets must ascend. The ranges have about the same number of positions, whatever the lengths of
/// the rows, and at least `grain` items, counting positions and rows. `offsets` is a pointer or an
/// object with an operator[].
template <class Offsets, class Function>
void parallel_rows(Offsets const& offsets,
                   std::int64_t rows,
                   std::int64_t grain,
                   Function&& function) {
  auto const items = static_cast<std::int64_t>(offsets[rows]) - offsets[0] + rows;
  if (items / 2 < grain) {
    if (rows > 0) {
      function(std::int64_t{0}, rows);
    }
    return;
  }
  parallel_ranges(items, grain, [&](std::int64_t begin, std::int64_t end) {
    auto const first = detail::rows_before(offsets, rows, begin);
    auto const last = end == items ? rows : detail::rows_before(offsets, rows, end);
    if (first < last) {
      function(first, last);
    }
  });
}

}  // namespace msstream::ops::kernels
