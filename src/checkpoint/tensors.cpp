// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.hpp"
#include "checkpoint/tensor_header.hpp"
#include "step/optimizer/swapped_weights.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/checkpoint/tensors.hpp>

#include <algorithm>

namespace msstream::checkpoint {

std::uint64_t Tensors::bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (auto const& named : tensors_) {
    bytes += named.tensor.bytes();
  }
  return bytes;
}

void Tensors::require_ready(char const* call, bool saves) const {
  for (auto const& check : checks_) {
    check(call, saves);
  }
  for (auto const& named : tensors_) {
    detail::SwappedWeights::refuse(call, named.name, named.tensor);
  }
}

void Tensors::add_state(detail::NamedState named) {
  auto const first = named.prefix + named.state->first_name();
  require(std::ranges::none_of(
              states_,
              [&](auto const& other) { return other.prefix + other.state->first_name() == first; }),
          "checkpoint: '{}' is in the list twice",
          first);
  states_.push_back(std::move(named));
}

void Tensors::add_any(std::string name, detail::AnyTensor const& tensor, bool is_optional) {
  require(name != detail::kMetadataKey,
          "checkpoint: a tensor cannot be named {}",
          detail::kMetadataKey);
  require(detail::is_utf8(name),
          "checkpoint: the tensor name '{}' is not UTF-8",
          detail::shortened(name));
  require(std::ranges::find(tensors_, name, &detail::NamedTensor::name) == tensors_.end(),
          "checkpoint: two tensors are named '{}'",
          name);
  require(tensors_.empty() || tensors_.front().tensor.device() == tensor.device(),
          "checkpoint: tensor '{}' is on another device than '{}'",
          name,
          tensors_.empty() ? std::string() : tensors_.front().name);
  tensors_.push_back({std::move(name), tensor, is_optional});
}

}  // namespace msstream::checkpoint
