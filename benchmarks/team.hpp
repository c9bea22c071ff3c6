// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <barrier>
#include <chrono>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace benchmarks {

/// Threads that repeatedly do the same work at the same time. A team of one is the calling thread
/// itself.
class Team {
 public:
  using Work = std::function<void(int thread)>;

  explicit Team(int threads);
  ~Team();
  Team(Team const&) = delete;
  Team& operator=(Team const&) = delete;

  /// Runs `work` on all threads at the same time. Returns the nanoseconds from the first member's
  /// start to the last one's end. Rethrows an exception of a member.
  double run(Work const& work);

 private:
  using Clock = std::chrono::steady_clock;
  struct Span {
    Clock::time_point begin;
    Clock::time_point end;
    std::exception_ptr failure;
  };

  void live(int thread);
  void measure(int thread);

  std::vector<Span> spans_;
  std::barrier<> start_;
  std::barrier<> finish_;
  std::atomic<int> awake_{0};
  Work const* work_ = nullptr;
  std::vector<std::jthread> threads_;
};

}  // namespace benchmarks
