// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/ops/hash.hpp>
#include <msstream/ops/id_element.hpp>
#include <msstream/ops/kernels/hash.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <source_location>

namespace msstream::ops::detail {

TensorOf<std::int64_t> bucketize(Floats const& values,
                                 Floats const& boundaries,
                                 std::source_location issued_at) {
  TensorOf<std::int64_t> buckets(values.device(), values.shape());
  kernels::BucketizeArgs const args{values.data(),
                                    boundaries.data(),
                                    boundaries.count(),
                                    buckets.data(),
                                    values.count(),
                                    nullptr};
  issue(
      "bucketize",
      reads(values, boundaries),
      writes(buckets),
      [args](auto stream) { kernels::bucketize(stream, args); },
      {},
      issued_at);
  return buckets;
}

}  // namespace msstream::ops::detail
