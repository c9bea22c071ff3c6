// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/id_array.hpp"

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Computes buckets[i] = mix(keys[i] + salt) mod bucket_count for i < count, where mix is the
/// 64-bit finaliser of MurmurHash3.
struct HashArgs {
  IdArray keys;
  std::int64_t* buckets;
  std::int64_t capacity;
  std::int64_t const* count;  ///< device scalar ≤ capacity, or null if all keys exist
  std::int64_t bucket_count;
  std::uint64_t salt;
};
void hash_to_bucket(HostStream stream, HashArgs const& args);
void hash_to_bucket(CudaStream stream, HashArgs const& args);

/// Computes buckets[i] = mix(keys[i] + salt + c) mod bucket_counts[c] for the keys of `columns`
/// columns, stored one after the other, where c = i / column_keys is the column of key i.
struct HashColumnsArgs {
  static constexpr int kMostColumns = 64;

  IdArray keys;
  std::int64_t* buckets;
  std::int64_t column_keys;  ///< keys in a column
  int columns;
  std::uint64_t salt;
  std::int64_t bucket_counts[kMostColumns];
};
void hash_columns(HostStream stream, HashColumnsArgs const& args);
void hash_columns(CudaStream stream, HashColumnsArgs const& args);

/// Computes buckets[i] = the number of boundaries ≤ values[i]. Boundaries must ascend. NaN goes to
/// bucket 0.
struct BucketizeArgs {
  float const* values;
  float const* boundaries;
  std::int64_t boundary_count;
  std::int64_t* buckets;
  std::int64_t capacity;
  std::int64_t const* count;  ///< device scalar ≤ capacity, or null if all values exist
};
void bucketize(HostStream stream, BucketizeArgs const& args);
void bucketize(CudaStream stream, BucketizeArgs const& args);

}  // namespace msstream::ops::kernels
