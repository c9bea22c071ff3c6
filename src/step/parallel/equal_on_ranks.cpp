// SPDX-License-Identifier: Apache-2.0
#include "step/parallel/equal_on_ranks.hpp"

#include <msstream/base/detail/require.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

namespace msstream::detail {
namespace {

[[nodiscard]] std::vector<std::string> lines_in(std::string const& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(std::move(line));
  }
  return lines;
}

/// The beginning of a text that is the message of a refusal. No other text begins so.
constexpr std::string_view kRefusal = "\nrefused: ";

}  // namespace

void exchange_refusal(comm::detail::AnyCommunicator const& communicator, char const* message) {
  try {
    static_cast<void>(communicator.exchange(std::string(kRefusal) + message));
  } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): the refusal is thrown instead
  }
}

void require_equal_on_ranks(char const* caller,
                            char const* what,
                            std::vector<std::string> const& texts) {
  auto const refused =
      std::ranges::find_if(texts, [](auto const& text) { return text.starts_with(kRefusal); });
  if (refused != texts.end()) {
    throw_invalid_argument(fmt::format("{}: rank {} has refused its arguments: {}",
                                       caller,
                                       refused - texts.begin(),
                                       refused->substr(kRefusal.size())));
  }
  auto const other =
      std::ranges::find_if(texts, [&](auto const& text) { return text != texts[0]; });
  if (other == texts.end()) {
    return;
  }
  auto of_first = lines_in(texts[0]);
  auto of_other = lines_in(*other);
  auto const lines = std::max(of_first.size(), of_other.size());
  of_first.resize(lines, "nothing more");
  of_other.resize(lines, "nothing more");
  auto const [first, second] = std::ranges::mismatch(of_first, of_other);
  throw_invalid_argument(
      fmt::format("{}: rank 0 has {}, and rank {} has {}; expected equal {} on "
                  "all ranks",
                  caller,
                  *first,
                  other - texts.begin(),
                  *second,
                  what));
}

}  // namespace msstream::detail
