// SPDX-License-Identifier: Apache-2.0
#include "ids/hash.hpp"

#include "ops/common/id_array.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/ids.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <source_location>

namespace msstream::ops::detail {

TensorOf<std::int64_t> hash_to_bucket(AnyTensor const& keys,
                                      std::int64_t bucket_count,
                                      std::uint64_t salt,
                                      std::source_location issued_at) {
  require(bucket_count >= 1, "hash_to_bucket: {} buckets; expected at least 1", bucket_count);
  TensorOf<std::int64_t> buckets(keys.device(), keys.shape());
  kernels::HashArgs const args{
      id_array(keys), buckets.data(), keys.count(), nullptr, bucket_count, salt};
  issue(
      "hash_to_bucket",
      reads(keys),
      writes(buckets),
      [args](auto stream) { kernels::hash_to_bucket(stream, args); },
      {},
      issued_at);
  return buckets;
}

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
