// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace msstream::detail {

/// Throws the error again with a message that names `purpose`.
[[noreturn]] void throw_no_thread(std::system_error const& error, std::string_view purpose);

/// Starts a thread (a std::thread or std::jthread) that runs `work`. If the system cannot start
/// more threads, throws a std::system_error whose message names `purpose`, such as "a stream of the
/// host runtime", and the limits that apply.
template <class Thread = std::thread, class Work>
[[nodiscard]] Thread start_thread(std::string_view purpose, Work&& work) {
  try {
    return Thread(std::forward<Work>(work));
  } catch (std::system_error const& error) {
    throw_no_thread(error, purpose);
  }
}

}  // namespace msstream::detail
