// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/gate.hpp"
#include "runtime/runtime_fixture.hpp"
#include "stream/stream.hpp"
#include "stream/stream_context.hpp"
#include "stream/stream_group.hpp"

#include <msstream/runtime/detail/backend_of.hpp>
#include <msstream/stream/stream.hpp>
#include <msstream/stream/stream_group.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace msstream::testing {

/// A fixture with a StreamContext, and short functions to issue reads, writes and other work.
template <class R>
class StreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (auto const reason = why_unavailable<R>(); !reason.empty()) {
      GTEST_SKIP() << R::name << ": " << reason;
    }
    context = make_context();
  }

  static std::shared_ptr<detail::StreamContext> make_context(detail::TrackerOptions options = {}) {
    return std::make_shared<detail::StreamContext>(
        detail::make_backend<R>(typename R::Options{}),
        std::make_shared<detail::DependencyTracker>(life_of<R>, std::move(options)));
  }
  [[nodiscard]] R& runtime() const { return detail::runtime_of<R>(*context->runtime); }
  [[nodiscard]] WaitCounts counts() const { return context->tracker->wait_counts(); }

  /// Replaces a Device where streams and pools need only its StreamContext.
  struct ContextDevice {
    using runtime_type = R;
    [[nodiscard]] std::shared_ptr<detail::StreamContext> const& context() const noexcept {
      return of;
    }
    std::shared_ptr<detail::StreamContext> of;
  };
  [[nodiscard]] static ContextDevice device_of(std::shared_ptr<detail::StreamContext> of) {
    return {std::move(of)};
  }
  [[nodiscard]] ContextDevice device() const { return {context}; }

  /// Returns the runtime's native handle of a stream.
  [[nodiscard]] static typename R::native_stream native(detail::Stream const& stream) noexcept {
    return static_cast<typename R::native_stream>(stream.native());
  }

  /// A cell of device memory, and the record by which the tracker orders accesses to it.
  struct TrackedCell {
    explicit TrackedCell(std::shared_ptr<R> runtime) : cell(std::move(runtime)) {}
    Cell<R> cell;
    detail::AccessRecord record;
  };
  /// Returns the runtime of the context. The pointer keeps the backend alive.
  [[nodiscard]] std::shared_ptr<R> share_runtime() const { return {context->runtime, &runtime()}; }
  [[nodiscard]] std::unique_ptr<TrackedCell> make_cell() const {
    return std::make_unique<TrackedCell>(share_runtime());
  }
  static order::Position write(detail::StreamGroup& group,
                               TrackedCell& to,
                               std::uint8_t value,
                               StreamKind kind = StreamKind::compute) {
    detail::AccessSet accesses;
    accesses.add(to.record, AccessMode::write);
    return submit(
        group,
        "write",
        accesses,
        [&group, &to, value, kind](auto) { to.cell.write(value, native(group.stream(kind))); },
        kind);
  }
  static order::Position read(detail::StreamGroup& group,
                              TrackedCell& from,
                              StreamKind kind = StreamKind::compute) {
    detail::AccessSet accesses;
    accesses.add(from.record, AccessMode::read);
    return submit(
        group,
        "read",
        accesses,
        [&group, &from, kind](auto) { from.cell.read(native(group.stream(kind))); },
        kind);
  }
  /// Issues an operation that accesses no memory.
  template <class Work>
  static order::Position run(detail::StreamGroup& group, Work&& work) {
    detail::AccessSet nothing;
    return submit(group, "run", nothing, std::forward<Work>(work));
  }
  /// Issues an operation whose work gets the argument that the runtime passes to work.
  template <class Work>
  static order::Position submit(detail::StreamGroup& group,
                                char const* name,
                                detail::AccessSet& accesses,
                                Work&& work,
                                StreamKind kind = StreamKind::compute) {
    return group.submit(name, kind, accesses, detail::WorkRef::of<R>(std::forward<Work>(work)));
  }

  std::shared_ptr<detail::StreamContext> context;
};

}  // namespace msstream::testing
