// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/detail/backend.hpp>
#include <msstream/stream/stream_kind.hpp>

#include <memory>
#include <string>
#include <utility>

namespace msstream::detail {

class Event;
struct RecordedEvent;
class Stream;
class StreamGroup;
struct StreamContext;

/// The implementation of Event<R>, compiled once for all runtimes.
class AnyEvent {
 public:
  AnyEvent(std::shared_ptr<StreamContext> context, std::shared_ptr<RecordedEvent> recorded) noexcept
      : context_(std::move(context)), recorded_(std::move(recorded)) {}
  [[nodiscard]] bool query() const;
  void synchronize() const;
  [[nodiscard]] order::Position position() const noexcept;
  [[nodiscard]] NativeEvent native() const noexcept;
  [[nodiscard]] Event engine() const;
  [[nodiscard]] StreamContext const& context() const noexcept { return *context_; }
  [[nodiscard]] RecordedEvent const& recorded() const noexcept { return *recorded_; }

 private:
  std::shared_ptr<StreamContext> context_;
  std::shared_ptr<RecordedEvent> recorded_;
};

/// The implementation of Stream<R>, compiled once for all runtimes.
class AnyStream {
 public:
  explicit AnyStream(std::shared_ptr<Stream> stream) noexcept : stream_(std::move(stream)) {}
  AnyStream(std::shared_ptr<StreamContext> const& context, StreamPriority priority);
  [[nodiscard]] AnyEvent record() const;
  void wait(AnyEvent const& event) const;
  void synchronize() const;
  [[nodiscard]] NativeStream native() const noexcept;
  [[nodiscard]] Backend& backend() const noexcept;
  [[nodiscard]] std::shared_ptr<Stream> const& engine() const noexcept { return stream_; }

 private:
  std::shared_ptr<Stream> stream_;
};

/// The implementation of StreamGroup<R>, compiled once for all runtimes.
class AnyStreamGroup {
 public:
  explicit AnyStreamGroup(std::shared_ptr<StreamGroup> group) noexcept : group_(std::move(group)) {}
  [[nodiscard]] AnyStream stream(StreamKind kind) const;
  [[nodiscard]] bool merged() const noexcept;
  [[nodiscard]] int index() const noexcept;
  [[nodiscard]] std::string const& name() const noexcept;
  void synchronize() const;
  [[nodiscard]] Backend& backend() const noexcept;
  [[nodiscard]] std::shared_ptr<StreamGroup> const& engine() const noexcept { return group_; }

 private:
  std::shared_ptr<StreamGroup> group_;
};

}  // namespace msstream::detail
