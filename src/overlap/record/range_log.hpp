// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::overlap::record {

/// The NVTX ranges of a process, by thread, on the clock CLOCK_REALTIME. Ranges that are open are
/// always known; those that ended are kept only while a recording runs, until take().
class RangeLog {
 public:
  struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;  ///< 0 while it is open
    std::string name;
    std::string const* domain = nullptr;  ///< nullptr: the default domain
    std::uint32_t thread = 0;
    bool of_process = false;
  };

  /// Called as the first range of the chosen name begins (true) and the last one ends (false).
  using Switch = void (*)(bool begins);

  /// Returns the log of the process. After fork() the child has a new one.
  [[nodiscard]] static RangeLog& of_process();
  /// Called in the child of fork(): threads of the parent may have held locks of the old log.
  static void renew();

  /// Chooses the ranges that `on_switch` is called for; see Settings::range.
  void watch(std::string chosen, Switch on_switch);
  [[nodiscard]] bool watched_is_open() const noexcept { return open_watched_ > 0; }
  void keep(bool keeps) noexcept { keeps_ = keeps; }

  /// Returns the number of open ranges of the thread and domain before the new one.
  int push(std::string const* domain, std::string_view name);
  int pop(std::string const* domain);
  [[nodiscard]] std::uint64_t start(std::string const* domain, std::string_view name);
  void end(std::uint64_t id);
  void name_thread(std::uint32_t thread, std::string_view name);

  /// Returns the ranges that ended since the last call. With `open`, also those that are open.
  [[nodiscard]] std::vector<Range> take(bool open);
  [[nodiscard]] std::map<std::uint32_t, std::string> take_thread_names();

 private:
  struct OfThread;
  struct Holder;

  RangeLog() = default;
  OfThread& here();
  [[nodiscard]] bool is_watched(Range const& range) const;
  void began(Range const& range);
  void ended(Range const& range);

  RangeLog* before_ = nullptr;  ///< of the parent process, so that checkers see that it is kept
  std::atomic<bool> keeps_{false};
  std::atomic<int> open_watched_{0};
  Switch switch_ = nullptr;
  std::string watched_;
  std::mutex mutex_;  ///< of all that follows
  std::vector<std::shared_ptr<OfThread>> threads_;
  std::map<std::uint64_t, Range> started_;
  std::uint64_t next_id_ = 1;
  std::vector<Range> ended_;
  std::map<std::uint32_t, std::string> thread_names_;
};

}  // namespace msstream::overlap::record
