// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/record/buffers.hpp"
#include "overlap/record/cupti_cuda.hpp"
#include "overlap/record/event_writer.hpp"
#include "overlap/record/frame.hpp"
#include "overlap/record/settings.hpp"
#include "overlap/record/trace_file.hpp"

#include <semaphore.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::overlap::record {

/// The recorder of this process: a thread that takes CUPTI's records and writes them.
///
/// A recorder that the environment asks for takes records four times a second, and lives until the
/// process ends. A recorder that the program itself begins leaves records in the buffers, as long
/// as there is room, until it ends, so that the thread does not compete with the program.
///
/// States: waiting (for the window that the settings name), recording, finishing, done. The
/// thread owns everything but the buffers and the window, which have locks.
class Recorder {
 public:
  /// Why the recording ends: one of these, or a signal's number.
  static constexpr int kExit = -1;
  static constexpr int kQuickExit = -2;
  static constexpr int kStopped = -3;  ///< by the program that began it

  /// Begins the recording that the environment asks for, once. Called as CUDA is initialised.
  static void start();
  /// Begins a recording of this program to a file in `folder`, and returns why it cannot; empty on
  /// success. Calls of this function and of stop_in_program() must not overlap.
  [[nodiscard]] static std::string start_in_program(std::string const& folder);
  struct Stopped {
    std::string path;   ///< of the file
    std::string error;  ///< why there is none; otherwise empty
    Moment start;       ///< the time that the file writes as 0
    std::uint32_t cupti_version = 0;
  };
  /// Ends the recording that start_in_program() began, and waits until its file is complete.
  [[nodiscard]] static Stopped stop_in_program();
  /// Returns the recorder; nullptr without one, also in children of fork().
  [[nodiscard]] static Recorder* current() noexcept;
  /// Ends the recording if there is one, and waits for it at most `limit_ms`.
  static void finish(int why, int limit_ms) noexcept;

  /// Asks the thread to end the recording. Safe in signal handlers.
  void ask_to_finish(int why) noexcept;
  [[nodiscard]] bool is_done() const noexcept { return done_.load(); }
  /// Waits until the recording has ended, at most `limit_ms`. Safe in signal handlers.
  bool wait_until_done(int limit_ms) const noexcept;
  /// Called as the NVTX range that the settings name begins or ends.
  void on_range(bool begins) { begins ? open_window() : close_window(); }

 private:
  /// As much of the file's text is written at once.
  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20U;

  Recorder(Settings settings, Cupti const& cupti);

  [[nodiscard]] std::string begin();
  void run();
  void set_attributes();
  void enable_always();
  void disable_always();
  /// Writes what is known of the calling thread's context, which exists since before the recording.
  void describe_context();
  /// Finds the numbers of the calls that windows record: once, as windows open on the program's
  /// threads.
  void find_calls();
  void choose_calls();
  void open_window();
  void close_window();
  void switch_by_time();
  void write_head(bool must);
  void drain();
  void add_ranges(bool open);
  void end();
  void tell(bool ok, std::string const& message) const;
  [[nodiscard]] Moment now() const;
  static void forget_in_child() noexcept;

  Settings settings_;
  Cupti cupti_;
  pid_t pid_;
  std::uint32_t thread_ = 0;
  Buffers& buffers_;
  TraceFile file_;
  std::unique_ptr<EventWriter> writer_;
  Head head_;
  Foot foot_;
  std::string text_;  ///< not yet written: before the head is
  bool head_is_written_ = false;
  int ticks_ = 0;
  sem_t& wake_;
  std::thread thread_of_program_;  ///< is run(), if the program began the recording
  std::atomic<int> why_{0};
  std::atomic<bool> done_{false};

  std::mutex window_mutex_;  ///< of the two below
  bool window_is_open_ = false;
  std::vector<std::uint32_t> unwanted_runtime_calls_;
  std::vector<std::uint32_t> unwanted_driver_calls_;
  bool windows_are_over_ = false;
  bool is_without_kernels_ = false;  ///< CUPTI refused to record them
  std::vector<std::pair<std::int64_t, std::int64_t>> windows_;
};

}  // namespace msstream::overlap::record
