// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/ops/device_count.hpp>
#include <msstream/ops/id_element.hpp>
#include <msstream/ops/kernels/lengths.hpp>
#include <msstream/ops/lengths.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <source_location>

namespace msstream::ops::detail {

TensorOf<std::int64_t> offsets_to_lengths(TensorOf<std::int64_t> const& offsets,
                                          std::source_location issued_at) {
  require(offsets.shape().rank() == 1 && offsets.count() >= 1,
          "offsets_to_lengths: offsets of shape ",
          offsets.shape(),
          "; expected [samples + 1]");
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
