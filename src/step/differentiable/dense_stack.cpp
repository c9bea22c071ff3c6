// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/require.hpp>
#include <msstream/base/format.hpp>
#include <msstream/step/dense_stack.hpp>

#include <string_view>

namespace msstream::detail {

void require_stack(Parameters<AnyRuntime> const& parameters,
                   std::string_view name,
                   DenseStackOptions const& options) {
  require(options.shared || !parameters.has_stack(name),
          "DenseStack '{}': the Parameters have a stack of this name, whose weights this one would "
          "share; expected another name, or DenseStackOptions::shared",
          name);
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

void require_stack_input(std::string_view name, Shape const& input, std::int64_t inputs) {
  require(input.rank() == 2 && input[1] == inputs,
          "DenseStack '{}': an input {}; expected [batch, {}]",
          name,
          input,
          inputs);
}

}  // namespace msstream::detail
