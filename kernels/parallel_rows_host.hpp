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

/// Threads that help those who have many items to work on.
///
/// States: a helper sleeps until a call is open, then claims ranges of the oldest one until none is
/// left; a call closes when its ranges are claimed. The threads start with the first call that has
/// several ranges. Ownership: a call lives on its caller's stack, and the caller leaves it when no
/// helper is in it any more. Memory ordering: a range is claimed by a relaxed counter; helpers
/// enter and leave a call under the mutex under which it was opened and is left, so that they see
/// what the caller wrote before, and the caller sees what they wrote.
class RangeTeam {
 public:
  explicit RangeTeam(int helpers) : helper_count_(helpers) {}
  /// Ends the threads; nobody may be in run().
  ~RangeTeam();
  RangeTeam(RangeTeam const&) = delete;
  RangeTeam& operator=(RangeTeam const&) = delete;

  /// What MSSTREAM_HOST_KERNEL_THREADS says, 1 or more with the calling thread; without it, as many
  /// as the machine has processors. Throws what env::integer() throws.
  [[nodiscard]] static int threads_of_process();
  /// The team that all streams of the process share, of threads_of_process() − 1 threads.
  ///
  /// It is the one object of the library that hangs from nothing: processors belong to the process,
  /// so that a team a stream or a runtime would start several times as many threads as there are
  /// processors, and a kernel has nothing but the queue it was put on to reach one through. It
  /// changes no result. Never destroyed: streams may work until the last static object is gone, and
  /// threads that sleep end with the process. After a fork() the child makes a team of its own.
  [[nodiscard]] static RangeTeam& of_process();

  /// parallel_ranges() with this team.
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
  /// Under the lock.
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

/// Calls `function(begin, end)` for ranges that make up [0, count), of at least `grain` items each,
/// on the calling thread and on those of the process's team that have nothing else to do.
///
/// The caller waits only for ranges that a helper has begun, never for a helper to come. Fewer than
/// 2 * grain items are one call, which touches nothing shared; so is a call from within a range.
/// `grain` is 1 or more. Where ranges throw, one of the exceptions reaches the caller once those
/// that were begun have ended; ranges that nobody had begun are left out.
template <class Function>
void parallel_ranges(std::int64_t count, std::int64_t grain, Function&& function) {
  if (count / 2 >= grain) {
    RangeTeam::of_process().run(count, grain, function);
  } else if (count > 0) {
    function(std::int64_t{0}, count);
  }
}

/// Bytes that are worth a helper: one processor moves them in 10 to 30 microseconds, and it takes
/// about as long until a helper is awake.
inline constexpr std::int64_t kGrainBytes = std::int64_t{256} << 10U;

/// How many items of `bytes` each are worth a helper.
[[nodiscard]] constexpr std::int64_t grain_of(std::int64_t bytes) {
  return std::max<std::int64_t>(1, kGrainBytes / std::max<std::int64_t>(1, bytes));
}

namespace detail {

/// How many rows begin before place `item`, where each row takes one place more than it has, so
/// that rows without places are work too.
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

/// Calls `function(begin, end)` for ranges that make up the rows [0, rows), as parallel_ranges()
/// does. Row r has the places [offsets[r], offsets[r + 1]), ascending; ranges have about as many
/// places, whatever the rows' lengths, and at least `grain` of them with the rows themselves.
/// `offsets` is a pointer, or what has an operator[].
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
