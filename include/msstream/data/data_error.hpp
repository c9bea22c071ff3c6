// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <stdexcept>

namespace msstream::data {

/// An error of input data that cannot be used. The message says which file, where in it, what was
/// expected and what was found.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace msstream::data
