// SPDX-License-Identifier: Apache-2.0
#include "ids/unique.hpp"

#include "ops/common/count_of.hpp"
#include "ops/common/id_array.hpp"
#include "ops/common/workspace.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/ops/ids.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <source_location>

namespace msstream::ops::detail {

AnyUniqueIds unique(AnyTensor const& ids,
                    UniqueOptions<AnyRuntime> const& options,
                    std::source_location issued_at) {
  require(options.below >= 0, "unique: ids below {}; expected at least 0", options.below);
  auto const& device = ids.device();
  std::int64_t const capacity = ids.count();
  AnyUniqueIds found{{device, ids.dtype(), {capacity}},
                     {device, ids.shape()},
                     {device, {capacity}},
                     {device, Shape{}}};
  kernels::UniqueProblem const problem{
      capacity, ids.dtype() == DType::int64, options.below, options.order};
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::unique_workspace_bytes(stream, problem);
                            }));
  kernels::UniqueArgs const args{problem,
                                 id_array(ids),
                                 count_of("unique", options.count),
                                 found.values.data(),
                                 found.inverse.data(),
                                 found.counts.data(),
                                 found.count.data(),
                                 workspace.data()};
  auto read = reads(ids);
  if (options.count) {
    read.add(*options.count);
  }
  issue(
      "unique",
      read,
      workspace.with(writes(found.values, found.inverse, found.counts, found.count)),
      [args](auto stream) { kernels::unique(stream, args); },
      {},
      issued_at);
  return found;
}

}  // namespace msstream::ops::detail
