// SPDX-License-Identifier: Apache-2.0
#include "common/existing_places.hpp"
#include "common/search.hpp"
#include "ids/hash.hpp"
#include "ids/hash_functions.hpp"

namespace msstream::ops::kernels {

void hash_to_bucket(HostStream stream, HashArgs const& args) {
  stream.run([args] {
    auto const count = existing_places(args.count, args.capacity);
    for (std::int64_t i = 0; i < count; ++i) {
      args.buckets[i] = bucket_of(args.keys.at(i), args.salt, args.bucket_count);
    }
  });
}

void hash_columns(HostStream stream, HashColumnsArgs const& args) {
  stream.run([args] {
    for (int column = 0; column < args.columns; ++column) {
      auto const first = column * args.column_keys;
      for (auto i = first; i < first + args.column_keys; ++i) {
        args.buckets[i] = bucket_of(args.keys.at(i),
                                    args.salt + static_cast<std::uint64_t>(column),
                                    args.bucket_counts[column]);
      }
    }
  });
}

void bucketize(HostStream stream, BucketizeArgs const& args) {
  stream.run([args] {
    auto const count = existing_places(args.count, args.capacity);
    for (std::int64_t i = 0; i < count; ++i) {
      args.buckets[i] = count_not_above(args.boundaries, args.boundary_count, args.values[i]);
    }
  });
}

}  // namespace msstream::ops::kernels
