// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>

namespace msstream::testing {

/// Returns the message of the exception of type E that `call` throws. If it throws none, the test
/// fails.
template <class E, class Call>
[[nodiscard]] std::string message_of(Call call) {
  try {
    call();
  } catch (E const& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected an exception";
  return {};
}

}  // namespace msstream::testing
