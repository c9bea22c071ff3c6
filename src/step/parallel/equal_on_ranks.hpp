// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/comm/detail/any_communicator.hpp>

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace msstream::detail {

/// Tells the other ranks, in the exchange in which they compare their texts, that this one has
/// refused its arguments. Throws nothing if the communicator has failed.
void exchange_refusal(comm::detail::AnyCommunicator const& communicator, char const* message);

/// Returns `check()`, which looks at what this rank alone has. If it throws, takes part in the
/// exchange of the other ranks before, so that their require_equal_on_ranks() throws, too: no rank
/// waits, and the communicator stays usable. No other exchange may lie between the two.
template <class Check>
[[nodiscard]] decltype(auto) checked_on_all(comm::detail::AnyCommunicator const& communicator,
                                            Check&& check) {
  try {
    return std::forward<Check>(check)();
  } catch (std::exception const& error) {
    exchange_refusal(communicator, error.what());
    throw;
  }
}

/// Throws std::invalid_argument, which begins with the name of the caller, if a rank has refused
/// its arguments, with its message, and if the texts of the ranks, which `what` calls by a name,
/// are not equal, with the first line that differs.
void require_equal_on_ranks(char const* caller,
                            char const* what,
                            std::vector<std::string> const& texts);

}  // namespace msstream::detail
