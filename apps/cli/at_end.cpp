// SPDX-License-Identifier: Apache-2.0
#include "cli/at_end.hpp"

#include <mutex>
#include <utility>
#include <vector>

namespace msstream::cli {

namespace {

struct EndFunctions {
  std::mutex mutex;
  std::vector<std::function<void(std::exception_ptr const&)>> functions;
};

EndFunctions& end_functions() {
  static EndFunctions functions;
  return functions;
}

}  // namespace

void call_at_end(std::function<void(std::exception_ptr const&)> function) {
  auto& [mutex, functions] = end_functions();
  std::lock_guard const guard(mutex);
  functions.push_back(std::move(function));
}

void end_with(std::exception_ptr const& failure) noexcept {
  auto& [mutex, functions] = end_functions();
  for (;;) {
    std::function<void(std::exception_ptr const&)> last;
    {
      std::lock_guard const guard(mutex);
      if (functions.empty()) {
        return;
      }
      last = std::move(functions.back());
      functions.pop_back();
    }
    try {
      last(failure);
    } catch (...) {  // NOLINT(bugprone-empty-catch): the program ends as it would without it
    }
  }
}

}  // namespace msstream::cli
