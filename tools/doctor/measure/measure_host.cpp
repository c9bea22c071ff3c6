// SPDX-License-Identifier: Apache-2.0
#include "doctor/measure/measure_host.hpp"

#include "cli/failure_text.hpp"
#include "doctor/measure/measure_issue.hpp"
#include "doctor/measure/median.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/runtime/host.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace msstream::doctor {
namespace {

using Clock = std::chrono::steady_clock;

/// Counts how often a thread does a fixed piece of work until `end`.
std::uint64_t work_until(Clock::time_point end) {
  std::uint64_t pieces = 0;
  std::uint64_t volatile state = 1;
  while (Clock::now() < end) {
    std::uint64_t x = state;
    for (int i = 0; i < 1000; ++i) {
      x = x * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
    }
    state = x;
    ++pieces;
  }
  return pieces;
}

}  // namespace

double measure_threads_at_once(double processors) {
  constexpr int kParts = 4;
  constexpr auto kPart = std::chrono::milliseconds(5);
  // The best part of several: other programs take time from a single thread, too.
  std::uint64_t alone = 1;
  for (int i = 0; i < kParts; ++i) {
    alone = std::max(alone, work_until(Clock::now() + kPart));
  }
  auto const count = static_cast<std::size_t>(std::clamp(std::ceil(processors), 1.0, 256.0));
  std::atomic<std::uint64_t> together{0};
  std::vector<std::jthread> threads;
  threads.reserve(count);
  auto const end = Clock::now() + kParts * kPart;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&] { together += work_until(end); });
  }
  threads.clear();  // joins
  auto const ratio = static_cast<double>(together.load()) / static_cast<double>(kParts * alone);
  return std::min(ratio, static_cast<double>(count));
}

double measure_wake_us() {
  constexpr int kTurns = 200;
  std::mutex mutex;
  std::condition_variable turned;
  int turn = 0;
  std::vector<double> us;
  us.reserve(kTurns);  // nothing may throw while the other thread waits for its turn
  // Even turns are the other thread's, odd ones this thread's.
  std::jthread other([&] {
    std::unique_lock lock(mutex);
    for (int i = 0; i < kTurns; ++i) {
      turned.wait(lock, [&] { return turn % 2 == 0; });
      ++turn;
      turned.notify_one();
    }
  });
  {
    std::unique_lock lock(mutex);
    auto before = Clock::now();
    for (int i = 0; i < kTurns; ++i) {
      turned.wait(lock, [&] { return turn % 2 == 1; });
      auto const now = Clock::now();
      us.push_back(std::chrono::duration<double, std::micro>(now - before).count() / 2);
      before = now;
      ++turn;
      turned.notify_one();
    }
  }
  other.join();
  return median_of(std::move(us));
}

double measure_copy_gb_per_s() {
  constexpr std::size_t kBytes = std::size_t{32} << 20U;
  std::vector<std::byte> const from(kBytes, std::byte{1});
  std::vector<std::byte> to(kBytes);
  double best_ns = 0;
  for (int i = 0; i < 3; ++i) {
    auto const begin = Clock::now();
    std::memcpy(to.data(), from.data(), kBytes);
    auto const ns = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
    best_ns = best_ns == 0 ? ns : std::min(best_ns, ns);
  }
  return static_cast<double>(kBytes) / std::max(best_ns, 1.0);
}

double measure_host_issue_us() {
  Device<Host> const device;
  return measure_issue_us(device, [](auto) {});
}

HostMeasures measure_host(double processors, std::function<void(std::string_view)> const& begin) {
  HostMeasures out;
  out.processors = processors;
  auto const attempt =
      [&](std::optional<double>& number, char const* id, char const* thing, auto const& measure) {
        begin(thing);
        try {
          number = measure();
        } catch (...) {
          out.failures.push_back({id, thing, cli::failure_text(std::current_exception())});
        }
      };
  attempt(out.threads_at_once, "threads-at-once", "threads that run at once", [&] {
    return measure_threads_at_once(processors);
  });
  attempt(out.wake_us, "thread-wake-up", "a thread wakes another one", measure_wake_us);
  attempt(out.copy_gb_per_s,
          "memory-copy",
          "copy in the host's memory, one thread",
          measure_copy_gb_per_s);
  attempt(out.issue_us, "host-issue", "issue() on the host runtime", measure_host_issue_us);
  return out;
}

Lines host_measure_lines(HostMeasures const& measures) {
  Lines lines;
  auto const line_of = [](char const* id, char const* thing) {
    return Line{Section::host_measured, id, thing};
  };
  if (measures.threads_at_once) {
    auto line = line_of("threads-at-once", "threads that run at once");
    line = with_quantity(std::move(line), {*measures.threads_at_once, "threads"});
    line.value += " of " + text_of({measures.processors, ""});
    if (*measures.threads_at_once < 0.7 * measures.processors) {
      line = judged(std::move(line),
                    Level::slow,
                    "Other programs use the processors, two threads share a core, or a limit "
                    "slows the process down. Launch threads then compete with the program.");
    }
    lines.push_back(std::move(line));
  }
  if (measures.wake_us) {
    auto line = line_of("thread-wake-up", "a thread wakes another one");
    line = with_quantity(std::move(line), {*measures.wake_us, "µs"});
    if (*measures.wake_us > 50) {
      line = judged(std::move(line),
                    Level::slow,
                    "Launch threads that sleep start late. Set MSSTREAM_LAUNCH_SPIN_US=200, so "
                    "that they look for work before they sleep.");
    }
    lines.push_back(std::move(line));
  }
  if (measures.copy_gb_per_s) {
    auto line = line_of("memory-copy", "copy in the host's memory, one thread");
    line = with_quantity(std::move(line), {*measures.copy_gb_per_s, "GB/s"});
    if (*measures.copy_gb_per_s < 3) {
      line = judged(std::move(line),
                    Level::note,
                    "It bounds pageable copies and readers of data. Other programs may use the "
                    "memory, or it belongs to another NUMA node.");
    }
    lines.push_back(std::move(line));
  }
  if (measures.issue_us) {
    auto line = line_of("host-issue", "issue() on the host runtime");
    line = with_quantity(std::move(line), {*measures.issue_us, "µs"});
    if (*measures.issue_us > 3) {
      line = judged(std::move(line),
                    Level::note,
                    "On an idle computer it takes about 0.1 µs. Other programs may use the "
                    "processors.");
    }
    lines.push_back(std::move(line));
  }
  for (auto const& [id, thing, message] : measures.failures) {
    lines.push_back(failed_line(Section::host_measured, id, thing, message));
  }
  return lines;
}

}  // namespace msstream::doctor
