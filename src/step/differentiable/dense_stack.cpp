// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/require.hpp>
#include <msstream/step/dense_stack.hpp>

#include <string_view>

namespace msstream::detail {

void require_stack(std::string_view name, DenseStackOptions const& options) {
  require(options.dropout >= 0.0F && options.dropout < 1.0F,
          "DenseStack '{}': a dropout of {}; expected a number in [0, 1)",
          name,
          options.dropout);
  require(
      options.dropout == 0.0F || options.random.has_value(),
      "DenseStack '{}': a dropout of {} without a generator; expected DenseStackOptions::random",
      name,
      options.dropout);
}

}  // namespace msstream::detail
