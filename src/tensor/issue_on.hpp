// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/order/position.hpp>
#include <msstream/stream/detail/work_ref.hpp>
#include <msstream/tensor/detail/any_uses.hpp>

#include <source_location>

namespace msstream::detail {

/// Issues an operation as issue_any() does, to the compute stream of `group`, or of its twin if the
/// calling thread captures: neither scopes nor a stream assignment place the operation. For work
/// that must not share a stream with other work, such as collectives.
order::Position issue_on(StreamGroup& group,
                         char const* name,
                         AnyUses const* read,
                         AnyUses const* written,
                         WorkRef work,
                         std::source_location issued_at);

}  // namespace msstream::detail
