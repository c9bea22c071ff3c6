// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace msstream::overlap {

/// The number of a text in a Names. 0 is the empty text.
using NameId = std::uint32_t;

/// The texts of a recording, each stored once: names of kernels, calls, ranges and threads.
class Names {
 public:
  Names() { id_of({}); }
  Names(Names const&) = delete;
  Names& operator=(Names const&) = delete;
  Names(Names&&) = default;
  Names& operator=(Names&&) = default;

  /// Returns the number of a text, which is added if it is new.
  NameId id_of(std::string_view text) {
    if (auto const found = ids_.find(text); found != ids_.end()) {
      return found->second;
    }
    auto const id = static_cast<NameId>(texts_.size());
    ids_.emplace(texts_.emplace_back(text), id);
    return id;
  }
  [[nodiscard]] std::string_view operator[](NameId id) const { return texts_.at(id); }
  [[nodiscard]] std::size_t size() const noexcept { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  ///< a deque, so that the keys of ids_ stay valid
  std::unordered_map<std::string_view, NameId> ids_;
};

}  // namespace msstream::overlap
