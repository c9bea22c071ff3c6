// SPDX-License-Identifier: Apache-2.0
#include "step/parallel/equal_parameters.hpp"

#include "step/parallel/equal_on_ranks.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/format.hpp>

#include <fmt/core.h>

#include <string>

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

}  // namespace

void make_equal(Parameters<AnyRuntime> const& parameters,
                comm::detail::AnyCommunicator const& communicator,
                DataParallelOptions const& options,
                std::function<void()> const& check,
                std::source_location issued_at) {
  auto const own = checked_on_all(communicator, [&] {
    check();
    require(options.bucket_bytes >= 1,
            "DataParallel: buckets of {} bytes; expected at least 1",
            options.bucket_bytes);
    require(options.reduction == comm::Reduction::mean || options.reduction == comm::Reduction::sum,
            "DataParallel: the {} of gradients; expected mean or sum",
            name_of(options.reduction));
    return list_of(parameters, options);
  });
  require_equal_on_ranks("DataParallel",
                         "options, and equal parameters in the same order,",
                         communicator.exchange(own));
  parameters.for_each([&](std::string const&, AnyTensor const& tensor, auto) {
    if (!tensor.immutable()) {
      comm::detail::broadcast(communicator, tensor, 0, issued_at);
    }
  });
}

}  // namespace msstream::detail
