// SPDX-License-Identifier: Apache-2.0
#include "trace/numbered_name.hpp"

#include <fmt/core.h>

#include <mutex>
#include <unordered_set>

namespace msstream::detail {

namespace {

struct NamesInUse {
  std::mutex mutex;
  std::unordered_set<std::string> names;
};

NamesInUse& names_in_use() {
  // Never destroyed: other threads may release names while the program ends.
  static auto& names = *new NamesInUse;
  return names;
}

}  // namespace

NumberedName::NumberedName(std::string const& text) : text_(text) {
  auto& [mutex, names] = names_in_use();
  std::lock_guard const guard(mutex);
  for (int number = 2; !names.insert(text_).second; ++number) {
    text_ = fmt::format("{} ({})", text, number);
  }
}

NumberedName::~NumberedName() {
  auto& [mutex, names] = names_in_use();
  std::lock_guard const guard(mutex);
  names.erase(text_);
}

}  // namespace msstream::detail
