// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/order/position.hpp>
#include <msstream/stream/detail/work_ref.hpp>
#include <msstream/tensor/detail/any_uses.hpp>

#include <source_location>

namespace msstream {

struct IssueOptions;

}  // namespace msstream

namespace msstream::detail {

/// The implementation of msstream::issue(), compiled once for all runtimes. `read` or `written` may
/// be null.
order::Position issue_any(char const* name,
                          AnyUses const* read,
                          AnyUses const* written,
                          WorkRef work,
                          IssueOptions const& options,
                          std::source_location issued_at);

}  // namespace msstream::detail
