// SPDX-License-Identifier: Apache-2.0
#include "budget.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>

namespace fake_cuda {

namespace {

std::string to_string(Budget::Allowed allowed) {
  std::string const most = std::to_string(allowed.most);
  if (allowed.most == 0) {
    return "none";
  }
  return allowed.least == allowed.most ? most : "at most " + most;
}

}  // namespace

::testing::AssertionResult within(Counts const& counted, Budget const& budget) {
  auto all = budget.allowed();
  for (auto const& [call, count] : counted.calls()) {
    all.try_emplace(call);
  }
  std::size_t widest = 0;
  for (auto const& [call, allowed] : all) {
    widest = std::max(widest, call.size());
  }
  std::string differing;
  for (auto const& [call, allowed] : all) {
    auto const count = counted[call];
    if (count < allowed.least || count > allowed.most) {
      differing += fmt::format(
          "\n  {:<{}}  counted {:<4}  allowed {}", call, widest, count, to_string(allowed));
    }
  }
  if (differing.empty()) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "calls of CUDA beside the budget:" << differing;
}

}  // namespace fake_cuda
