// SPDX-License-Identifier: Apache-2.0
#include "ids/hash.hpp"

#include "ops/common/id_array.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/ids.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <source_location>
#include <utility>
#include <vector>

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

TensorOf<std::int64_t> hash_to_bucket(AnyTensor const& keys,
                                      std::vector<std::int64_t> const& bucket_counts,
                                      std::uint64_t salt,
                                      std::source_location issued_at) {
  auto const columns = static_cast<std::int64_t>(bucket_counts.size());
  require(keys.shape().rank() >= 1 && keys.shape()[0] == columns,
          "hash_to_bucket: {} bucket counts for keys of shape {}; expected one for each column",
          columns,
          keys.shape());
  for (std::size_t column = 0; column < bucket_counts.size(); ++column) {
    require(bucket_counts[column] >= 1,
            "hash_to_bucket: {} buckets for column {}; expected at least 1",
            bucket_counts[column],
            column);
  }
  TensorOf<std::int64_t> buckets(keys.device(), keys.shape());
  auto const column_keys = columns == 0 ? 0 : keys.count() / columns;
  constexpr auto kMost = std::int64_t{kernels::HashColumnsArgs::kMostColumns};
  std::vector<kernels::HashColumnsArgs> parts;
  for (std::int64_t first = 0; first < columns; first += kMost) {
    auto const count = std::min(kMost, columns - first);
    auto const own = keys.rows(first, first + count);
    auto& args = parts.emplace_back();
    args.keys = id_array(own);
    args.buckets = buckets.data() + first * column_keys;
    args.column_keys = column_keys;
    args.columns = static_cast<int>(count);
    args.salt = salt + static_cast<std::uint64_t>(first);
    std::copy_n(bucket_counts.begin() + first, count, std::begin(args.bucket_counts));
  }
  issue(
      "hash_to_bucket",
      reads(keys),
      writes(buckets),
      [parts = std::move(parts)](auto stream) {
        for (auto const& args : parts) {
          kernels::hash_columns(stream, args);
        }
      },
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
