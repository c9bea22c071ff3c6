// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/comm/communicator.hpp>

#include <optional>

namespace msstream::ops::detail {

/// The ranks whose rows together are a batch. Null: the rows of this rank are all.
using Ranks = std::optional<comm::detail::AnyCommunicator>;

template <Runtime R>
[[nodiscard]] Ranks ranks_of(std::optional<comm::Communicator<R>> const& communicator) {
  return communicator ? Ranks(communicator->any()) : std::nullopt;
}

}  // namespace msstream::ops::detail
