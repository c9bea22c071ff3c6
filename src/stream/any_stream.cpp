// SPDX-License-Identifier: Apache-2.0
#include "stream/stream_group.hpp"

#include <msstream/stream/detail/any_stream.hpp>

#include <memory>

namespace msstream::detail {

Event AnyEvent::engine() const {
  return {context_, recorded_};
}
bool AnyEvent::query() const {
  return query_event(*context_, *recorded_);
}
void AnyEvent::synchronize() const {
  engine().synchronize();
}
order::Position AnyEvent::position() const noexcept {
  return recorded_->position;
}
NativeEvent AnyEvent::native() const noexcept {
  return recorded_->native;
}

AnyStream::AnyStream(std::shared_ptr<StreamContext> const& context, StreamPriority priority)
    : stream_(std::make_shared<Stream>(context, priority)) {}

AnyEvent AnyStream::record() const {
  auto const event = stream_->record();
  return {stream_->context(), event.share_recorded()};
}
void AnyStream::wait(AnyEvent const& event) const {
  stream_->wait(event.context().tracker.get(), event.recorded());
}
void AnyStream::synchronize() const {
  stream_->synchronize();
}
NativeStream AnyStream::native() const noexcept {
  return stream_->native();
}
Backend& AnyStream::backend() const noexcept {
  return *stream_->context()->runtime;
}

AnyStream AnyStreamGroup::stream(StreamKind kind) const {
  return AnyStream(std::shared_ptr<Stream>(group_, &group_->stream(kind)));
}
bool AnyStreamGroup::merged() const noexcept {
  return group_->merged();
}
int AnyStreamGroup::index() const noexcept {
  return group_->index();
}
std::string const& AnyStreamGroup::name() const noexcept {
  return group_->name();
}
void AnyStreamGroup::synchronize() const {
  group_->synchronize();
}
Backend& AnyStreamGroup::backend() const noexcept {
  return *group_->context()->runtime;
}

}  // namespace msstream::detail
