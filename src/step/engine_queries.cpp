// SPDX-License-Identifier: Apache-2.0
#include "step/engine_queries.hpp"

#include "memory/device/device_state.hpp"

namespace msstream::detail {

CurrentScope current_scope(DeviceState const& device) noexcept {
  auto const* const scope = OpenScope::current(*device.context);
  return scope == nullptr ? CurrentScope{} : CurrentScope{&scope->group(), scope->includes_grad()};
}

bool is_capturing(DeviceState const& device) noexcept {
  return OpenCapture::current(*device.context) != nullptr;
}

std::uint64_t launch_failures(DeviceState const& device) noexcept {
  return device.context->launch_failure->count();
}

bool is_immutable(memory::BlockRef const& block) noexcept {
  return block->immutable;
}

}  // namespace msstream::detail
