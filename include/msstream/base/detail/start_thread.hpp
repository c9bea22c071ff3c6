// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/text.hpp>

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace msstream::detail {

/// Starts a thread (a std::thread or std::jthread) that runs `work`. If the system cannot start
/// more threads, throws a std::system_error whose message names `purpose`, such as "a stream of the
/// host runtime", and the limits that apply.
template <class Thread = std::thread, class Work>
[[nodiscard]] Thread start_thread(std::string_view purpose, Work&& work) {
  try {
    return Thread(std::forward<Work>(work));
  } catch (std::system_error const& error) {
    throw std::system_error(error.code(),
                            text("cannot start a thread for ",
                                 purpose,
                                 " (see the limits of processes, ulimit -u, and of memory, "
                                 "ulimit -v)"));
  }
}

}  // namespace msstream::detail
