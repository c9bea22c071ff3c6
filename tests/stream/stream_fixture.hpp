// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/gate.hpp"
#include "runtime/runtime_fixture.hpp"

#include <msstream/stream/stream.hpp>
#include <msstream/stream/stream_context.hpp>
#include <msstream/stream/stream_group.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace msstream::testing {

/// A fixture with a StreamContext and short functions for frequent steps of the tests.
template <class R>
class StreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (auto const reason = why_unavailable<R>(); !reason.empty()) {
      GTEST_SKIP() << R::name << ": " << reason;
    }
    context = make_context();
  }

  static std::shared_ptr<StreamContext<R>> make_context(TrackerOptions options = {}) {
    return std::make_shared<StreamContext<R>>(
        typename R::Options{}, std::make_shared<DependencyTracker<R>>(std::move(options)));
  }
  [[nodiscard]] R& runtime() const { return *context->runtime; }
  [[nodiscard]] WaitCounts counts() const { return context->tracker->wait_counts(); }

  /// A cell whose accesses are tracked.
  struct TrackedCell {
    explicit TrackedCell(std::shared_ptr<R> runtime) : cell(std::move(runtime)) {}
    Cell<R> cell;
    AccessRecord record;
  };
  [[nodiscard]] std::unique_ptr<TrackedCell> make_cell() const {
    return std::make_unique<TrackedCell>(context->runtime);
  }
  static order::Position write(StreamGroup<R>& group,
                               TrackedCell& to,
                               std::uint8_t value,
                               StreamKind kind = StreamKind::compute) {
    AccessSet accesses;
    accesses.add(to.record, AccessMode::write);
    return group.submit("write", kind, accesses, [&group, &to, value, kind](auto) {
      to.cell.write(value, group.stream(kind).native());
    });
  }
  static order::Position read(StreamGroup<R>& group,
                              TrackedCell& from,
                              StreamKind kind = StreamKind::compute) {
    AccessSet accesses;
    accesses.add(from.record, AccessMode::read);
    return group.submit("read", kind, accesses, [&group, &from, kind](auto) {
      from.cell.read(group.stream(kind).native());
    });
  }
  /// Issues work that accesses no memory.
  template <class Work>
  static order::Position run(StreamGroup<R>& group, Work&& work) {
    AccessSet nothing;
    return group.submit("run", StreamKind::compute, nothing, std::forward<Work>(work));
  }

  std::shared_ptr<StreamContext<R>> context;
};

}  // namespace msstream::testing
