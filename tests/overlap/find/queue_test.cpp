// SPDX-License-Identifier: Apache-2.0
// Tests that a host which waits for room in the launch queue is found, whatever it launches.
#include "overlap/find/find.hpp"
#include "overlap/find/hand_made.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace msstream::overlap {
namespace {

/// A host that issues 2,000 pieces of work of 20 us to one stream, of which 1,024 entries wait
/// before it must, and then 50 of 780 us to another one. Each call has `pause` us before it, and
/// `events` calls that record events after it.
HandMade full_queue_of(CallKind kind, double pause, int events) {
  constexpr int kWork = 2'000;
  int const most = 1'024 / (1 + events);
  HandMade program;
  double at = 0;
  double end = 5;
  std::vector<double> begins;
  for (int i = 0; i < kWork; ++i) {
    at += pause;
    double const called = at;
    at = i < most ? at : std::max(at, begins[i - most]);
    auto const work = program.kernel(0, called, std::max(end, at + 4), std::max(end, at + 4) + 20);
    auto& call = program.recording.calls[program.recording.activities[work].call];
    at += 2;
    call.kind = kind;
    call.time.end = static_cast<Ns>(at * 1'000);
    if (kind == CallKind::copy) {
      program.recording.activities[work].kind = ActivityKind::copy;
      program.recording.activities[work].direction = CopyDirection::d2d;
    }
    begins.push_back(std::max(end, at + 2));
    end = begins.back() + 20;
    for (int event = 0; event < events; ++event) {
      program.call(CallKind::record_event, at, at + 0.5);
      at += 0.5;
    }
  }
  double other = at + 10;
  for (int i = 0; i < 50; ++i, at += 3, other += 780) {
    program.kernel(1, at, other, other + 780);
  }
  program.recording.sort();
  return program;
}

TEST(QueueTest, calls_of_all_kinds_wait_for_a_full_queue) {
  for (auto const kind : {CallKind::launch, CallKind::graph_launch, CallKind::copy}) {
    for (double const pause : {1.0, 4.0}) {
      for (int const events : {0, 1}) {
        auto const report = find(full_queue_of(kind, pause, events).recording);
        ASSERT_FALSE(report.findings.empty()) << static_cast<int>(kind) << pause << events;
        auto const& finding = report.findings.front();
        EXPECT_EQ(finding.cause, Cause::queue_is_full);
        // Beside all of the first stream's work, the second one's takes 39 of its 40 ms.
        ASSERT_TRUE(finding.prediction);
        EXPECT_NEAR(static_cast<double>(finding.prediction->after), 40'100'000, 1'000'000);
        EXPECT_GT(
            static_cast<double>(finding.lost),
            0.4 * static_cast<double>(finding.prediction->before - finding.prediction->after));
      }
    }
  }
}

}  // namespace
}  // namespace msstream::overlap
