// SPDX-License-Identifier: Apache-2.0
#include "jagged/lengths.hpp"

#include "ops/common/count_of.hpp"
#include "ops/common/id_array.hpp"
#include "ops/common/workspace.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/common.hpp>
#include <msstream/ops/jagged.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <source_location>

namespace msstream::ops::detail {

TensorOf<std::int64_t> lengths_to_offsets(AnyTensor const& lengths,
                                          DeviceCount<AnyRuntime> const& count,
                                          std::source_location issued_at) {
  require(lengths.shape().rank() == 1,
          "lengths_to_offsets: lengths of shape {}; expected [samples]",
          lengths.shape());
  auto const& device = lengths.device();
  std::int64_t const capacity = lengths.count();
  TensorOf<std::int64_t> offsets(device, {capacity + 1});
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::lengths_to_offsets_workspace_bytes(stream, capacity);
                            }));
  kernels::LengthsToOffsetsArgs const args{id_array(lengths),
                                           capacity,
                                           count_of("lengths_to_offsets", count),
                                           offsets.data(),
                                           workspace.data()};
  auto read = reads(lengths);
  if (count) {
    read.add(*count);
  }
  issue(
      "lengths_to_offsets",
      read,
      workspace.with(writes(offsets)),
      [args](auto stream) { kernels::lengths_to_offsets(stream, args); },
      {},
      issued_at);
  return offsets;
}

TensorOf<std::int64_t> offsets_to_lengths(TensorOf<std::int64_t> const& offsets,
                                          std::source_location issued_at) {
  require(offsets.shape().rank() == 1 && offsets.count() >= 1,
          "offsets_to_lengths: offsets of shape {}; expected [samples + 1]",
          offsets.shape());
  TensorOf<std::int64_t> lengths(offsets.device(), {offsets.count() - 1});
  kernels::OffsetsToLengthsArgs const args{offsets.data(), lengths.count(), lengths.data()};
  issue(
      "offsets_to_lengths",
      reads(offsets),
      writes(lengths),
      [args](auto stream) { kernels::offsets_to_lengths(stream, args); },
      {},
      issued_at);
  return lengths;
}

}  // namespace msstream::ops::detail
