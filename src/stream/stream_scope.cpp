// SPDX-License-Identifier: Apache-2.0
#include "stream/stream_scope.hpp"

#include <memory>
#include <source_location>
#include <utility>

namespace msstream::detail {
using Guards = ThreadGuards<OpenScope>;

OpenScope::OpenScope(std::shared_ptr<StreamGroup> group,
                     StreamScopeOptions const& options,
                     std::source_location opened_at)
    : group_(std::move(group)),
      options_(options),
      opened_at_(opened_at),
      range_(group_->name().c_str()) {
  auto& runtime = *group_->context()->runtime;
  if (auto* const checker = runtime.traits.observes_order ? runtime.checker() : nullptr) {
    region_.emplace(*checker, opened_at);
  }
}

AnyStreamScope::AnyStreamScope(std::shared_ptr<StreamGroup> group,
                               StreamScopeOptions const& options,
                               std::source_location opened_at)
    : group_(std::move(group)), entry_(Guards::open(opened_at, group_, options, opened_at)) {}

AnyStreamScope::~AnyStreamScope() {
  Guards::close(static_cast<Guards::Entry*>(entry_), "StreamScope", group_->name());
}

}  // namespace msstream::detail
