// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/comm/communicator.hpp>

#include <exception>
#include <utility>

namespace msstream::detail {

/// Returns `call()`, which is a part of a step that all ranks compute together. If it throws,
/// except for a failure of the communicator, the other ranks wait in collectives that this one does
/// not issue: gives the communicator up, so that they throw at once, with the message.
template <class Call>
decltype(auto) or_give_up(comm::detail::AnyCommunicator const& communicator, Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (comm::PeerLost const&) {
    throw;
  } catch (comm::CollectiveError const&) {
    throw;
  } catch (std::exception const& error) {
    communicator.give_up(error.what());
    throw;
  }
}

}  // namespace msstream::detail
