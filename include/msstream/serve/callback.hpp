// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/answer.hpp>

#include <functional>

namespace msstream::serve {

/// A function that receives the outcome of a query, once.
using Callback = std::function<void(Outcome const&)>;

}  // namespace msstream::serve
