// SPDX-License-Identifier: Apache-2.0
#include "step/parallel/equal_parameters.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/format.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace msstream::detail {
namespace {

/// Returns a line with the options, and one for each parameter.
[[nodiscard]] std::string list_of(Parameters<AnyRuntime> const& parameters,
                                  DataParallelOptions const& options) {
  using Kind = Parameters<AnyRuntime>::Kind;
  auto text = fmt::format(
      "the {} of buckets of {} bytes", name_of(options.reduction), options.bucket_bytes);
  if (options.reproducible == Reproducible::any_rank_count) {
    text += fmt::format(", {} of {} parts", name_of(options.reproducible), options.parts);
  }
  for (auto const& entry : parameters.entries()) {
    text += fmt::format("\n{}{} '{}', {} {}",
                        entry.is_frozen ? "the frozen " : "the ",
                        entry.kind == Kind::dense   ? "dense parameter"
                        : entry.kind == Kind::table ? "table"
                                                    : "buffer",
                        entry.name,
                        entry.dtype,
                        entry.shape);
  }
  return text;
}

[[nodiscard]] std::vector<std::string> lines_of(std::string const& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(std::move(line));
  }
  return lines;
}

/// Throws std::invalid_argument, with the first difference, unless all ranks have equal lists.
void require_equal(std::vector<std::string> const& lists) {
  auto const other =
      std::ranges::find_if(lists, [&](auto const& list) { return list != lists[0]; });
  if (other == lists.end()) {
    return;
  }
  auto of_first = lines_of(lists[0]);
  auto of_other = lines_of(*other);
  auto const lines = std::max(of_first.size(), of_other.size());
  of_first.resize(lines, "no more parameters");
  of_other.resize(lines, "no more parameters");
  auto const [first, second] = std::ranges::mismatch(of_first, of_other);
  throw_invalid_argument(
      fmt::format("DataParallel: rank 0 has {}, and rank {} has {}; expected equal options, and "
                  "equal parameters in the same order, on all ranks",
                  *first,
                  other - lists.begin(),
                  *second));
}

}  // namespace

void make_equal(Parameters<AnyRuntime> const& parameters,
                comm::detail::AnyCommunicator const& communicator,
                DataParallelOptions const& options,
                std::source_location issued_at) {
  require(options.bucket_bytes >= 1,
          "DataParallel: buckets of {} bytes; expected at least 1",
          options.bucket_bytes);
  require(options.reduction == comm::Reduction::mean || options.reduction == comm::Reduction::sum,
          "DataParallel: the {} of gradients; expected mean or sum",
          name_of(options.reduction));
  require_equal(communicator.exchange(list_of(parameters, options)));
  parameters.for_each([&](std::string const&, AnyTensor const& tensor, auto) {
    if (!tensor.immutable()) {
      comm::detail::broadcast(communicator, tensor, 0, issued_at);
    }
  });
}

}  // namespace msstream::detail
