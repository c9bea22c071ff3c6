// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/random.hpp>
#include <msstream/step/initializer.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

#include <source_location>
#include <string>

namespace msstream::detail {

/// Returns the initializer as the call of the namespace init that makes it.
[[nodiscard]] std::string to_string(Initializer const& initializer);

/// Fills a parameter with its first values. Throws std::invalid_argument, with the parameter's
/// name, if the initializer needs a shape of two or three dimensions and the parameter has another,
/// and if a number of the initializer is not finite or out of range.
void fill_with_initial_values(AnyTensor const& parameter,
                              Initializer const& initializer,
                              RandomKey const& key,
                              std::string const& name,
                              std::source_location issued_at);
/// Fills a block of a parameter of shape `whole` with the values that it has in the whole one.
void fill_with_initial_values(AnyTensor const& parameter,
                              Shape const& whole,
                              ops::detail::MatrixBlock const& block,
                              Initializer const& initializer,
                              RandomKey const& key,
                              std::string const& name,
                              std::source_location issued_at);

}  // namespace msstream::detail
