// SPDX-License-Identifier: Apache-2.0
#include "training/batches_ahead.hpp"

#include "runtime/gate.hpp"

#include <msstream/msstream.hpp>

#include <gtest/gtest.h>

namespace msstream::training {
namespace {

struct WaitWatcherOptions {
  testing::Gate* gate;
  int* waits;
};

/// A runtime that counts how often the host waits for an event, and opens the gate then.
class WaitWatcher : public Host {
 public:
  using Options = WaitWatcherOptions;
  explicit WaitWatcher(Options options) : options_(options) {}

  void synchronize(native_event event) {
    ++*options_.waits;
    options_.gate->open();
    Host::synchronize(event);
  }

 private:
  Options options_;
};

TEST(BatchesAhead, the_host_issues_two_batches_ahead_and_then_waits_for_the_first) {
  testing::Gate gate;
  int waits = 0;
  Device<WaitWatcher> const device({.runtime = {&gate, &waits}});
  StreamPool<WaitWatcher> pool(device, {.groups = 1});
  StreamScope const scope(pool[0]);
  BatchesAhead<WaitWatcher> ahead;
  // The queue of the compute stream is [wait for the test's gate, fill, fill, fill].
  gate.hold(pool[0].compute());
  for (int batch = 0; batch < 2; ++batch) {
    ahead.add(zeros<float>(device, {3, 1}));
  }
  EXPECT_EQ(waits, 0);
  ahead.add(zeros<float>(device, {3, 1}));
  EXPECT_EQ(waits, 1);
}

}  // namespace
}  // namespace msstream::training
