// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve/serve_fixture.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {

using serve::Clock;
using serve::DeadlineExceeded;
using serve::Outcome;
using Priority = serve::Query::Priority;
using serve::Refused;
using std::chrono::hours;
using std::chrono::milliseconds;
using ::testing::ElementsAre;

/// A fixture for tests of queries that wait in the queue before they are launched.
template <class R>
class WaitingTest : public RuntimeTest<R> {
 protected:
  /// Returns options for a pool with a single slot: the first query takes the slot, and the others
  /// wait.
  [[nodiscard]] static InferencePoolOptions one_slot() {
    auto options = ServeWorld<R>::options();
    options.replicas = 1;
    options.depth = 1;
    options.ageing = hours(1);  // keeps the given priorities, even on a busy machine
    return options;
  }
  [[nodiscard]] static Refused::Reason reason_of(std::future<Answer>& answer) {
    try {
      static_cast<void>(answer.get());
    } catch (Refused const& refused) {
      return refused.reason();
    }
    throw std::logic_error("it was not refused");
  }
};

/// Submits a query whose callback appends the name to `order`. Only the poller may use `order`
/// until the pool is drained.
template <class Pool>
void submit_named(Pool& pool,
                  Asked const& asked,
                  std::string const& name,
                  Priority priority,
                  std::vector<std::string>& order) {
  auto query = asked.query();
  query.priority = priority;
  pool.submit(query, [&order, name](Outcome const&) { order.push_back(name); });
}

}  // namespace msstream::testing
