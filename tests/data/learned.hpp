// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/host_state.hpp>
#include <msstream/data/transforms.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::data {

/// The bytes of the arrays in which transforms are saved.
using SavedArrays = std::map<std::string, std::vector<std::byte>>;

inline std::shared_ptr<msstream::detail::HostState> state_of(Transforms const& transforms) {
  std::shared_ptr<msstream::detail::HostState> state;
  transforms.visit_state([&](std::string const&, auto found) { state = std::move(found); });
  return state;
}

inline SavedArrays saved_arrays(Transforms const& transforms) {
  SavedArrays saved;
  for (auto const& array : state_of(transforms)->arrays()) {
    saved[array.name].assign(array.bytes.begin(), array.bytes.end());
  }
  return saved;
}

/// Loads what saved_arrays() has returned.
inline void restore(Transforms const& transforms, SavedArrays const& saved) {
  using Found = msstream::detail::HostState::Found;
  state_of(transforms)->read([&](std::string const& name) -> std::optional<Found> {
    auto const found = saved.find(name);
    if (found == saved.end()) {
      return std::nullopt;
    }
    bool const is_text = name.ends_with("/columns") || name.ends_with("/words");
    auto const bytes = static_cast<std::int64_t>(found->second.size());
    return Found{.dtype = is_text ? DType::uint8 : DType::int64,
                 .shape = {is_text ? bytes : bytes / 8},
                 .bytes = found->second};
  })();
}

}  // namespace msstream::data
