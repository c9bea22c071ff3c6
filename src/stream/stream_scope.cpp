// SPDX-License-Identifier: Apache-2.0
#include "stream/stream_scope.hpp"

#include <msstream/base/thread_guards.hpp>

#include <memory>
#include <source_location>
#include <utility>

namespace msstream::detail {
namespace {

using Guards = ThreadGuards<OpenScope>;

}  // namespace

OpenScope::OpenScope(std::shared_ptr<StreamGroup> group,
                     StreamScopeOptions const& options,
                     std::source_location opened_at)
    : group_(std::move(group)),
      options_(options),
      opened_at_(opened_at),
      range_(group_->name().c_str()) {
  if (auto* const checker = group_->context()->runtime->checker()) {
    region_.emplace(*checker, opened_at);
  }
}

OpenScope const* OpenScope::current(StreamContext const& context) noexcept {
  auto const* scope = Guards::innermost();
  while (scope != nullptr && (*scope)->group()->context().get() != &context) {
    scope = scope->outer();
  }
  return scope != nullptr ? &**scope : nullptr;
}

AnyStreamScope::AnyStreamScope(std::shared_ptr<StreamGroup> group,
                               StreamScopeOptions const& options,
                               std::source_location opened_at)
    : group_(std::move(group)), entry_(Guards::open(opened_at, group_, options, opened_at)) {}

AnyStreamScope::~AnyStreamScope() {
  Guards::close(static_cast<Guards::Entry*>(entry_), "StreamScope", group_->name());
}

}  // namespace msstream::detail
