// SPDX-License-Identifier: Apache-2.0
#include "common/existing_places.hpp"
#include "common/launch.cuh"
#include "common/real_types.hpp"
#include "embedding/lookup.hpp"
#include "embedding/plain_lookup.cuh"
#include "embedding/plain_tuning.hpp"
#include "ids/bag_layout.hpp"

#include <cstdint>
#include <limits>
#include <type_traits>

namespace msstream::ops::kernels {
namespace {

/// Returns whether a lookup is a sum of equally many ids per bag and small enough for indices of 32
/// bits. A negative id of 32 bits must not become the number of a row, as it would if the table had
/// more than 2^31 rows. The sum, the mean and the root mean of one row are equal.
bool is_plain(LookupArgs const& args) {
  constexpr std::int64_t kBelow = std::numeric_limits<std::uint32_t>::max();
  auto const& bags = args.bags;
  bool const sums =
      args.pooling == Pooling::sum ||
      (bags.hotness == 1 && (args.pooling == Pooling::mean || args.pooling == Pooling::sqrtn));
  return sums && bags.offsets == nullptr && bags.weights == nullptr && bags.bag_count == nullptr &&
         bags.hotness >= 1 && !is_in_range(bags.default_id, args.rows) && args.width * 4 < kBelow &&
         (bags.id_dtype == DType::int64 || args.rows <= std::numeric_limits<std::int32_t>::max()) &&
         bags.bags <= std::numeric_limits<std::int32_t>::max() / bags.hotness;
}

template <class T, int Count, class Out, class Id>
bool launch_plain(CudaStream stream, LookupArgs const& args, IdBags<Id> const& bags) {
  auto const lanes = args.width / Count;
  if (lanes > kPlainThreads || args.rows * lanes >= std::numeric_limits<std::uint32_t>::max()) {
    return false;
  }
  Parts const parts = bags.hotness <= kRowsOfPart       ? Parts::one
                      : bags.hotness <= 2 * kRowsOfPart ? Parts::two
                                                        : Parts::many;
  bool const is_staged = bags.hotness > kFewIds;
  PlainShape const shape{bags.bags,
                         bags.hotness,
                         args.width * static_cast<std::int64_t>(sizeof(T)),
                         static_cast<int>(lanes),
                         parts == Parts::many ? 8 * Count : 0};
  if (has_much_of_one_id(shape) || has_few_long_bags(bags.bags, bags.hotness, lanes, Count)) {
    return false;
  }
  auto const block = plain_block(shape, is_staged);
  if (block.bags == 0) {
    return false;
  }
  PlainLookup<T, Id> const lookup{static_cast<T const*>(args.table),
                                  bags.ids,
                                  args.output,
                                  static_cast<std::uint32_t>(args.rows),
                                  static_cast<std::uint32_t>(args.width),
                                  static_cast<std::uint32_t>(bags.bags),
                                  static_cast<std::uint32_t>(bags.hotness),
                                  args.report};
  dim3 const threads(static_cast<unsigned>(block.lanes), static_cast<unsigned>(block.bags));
  auto const blocks = grid_for(bags.bags, block.bags);
  auto const run = [&](auto kernel) {
    kernel<<<blocks, threads, block.shared_bytes, stream>>>(lookup);
    check_launch("embedding_lookup");
    return true;
  };
  if (is_staged) {
    constexpr int kInFlight = kRowsOfRound / 2;
    if (parts == Parts::one && rows_at_once(bags.bags, lanes) == kRowsOfRound) {
      return run(pool_staged_ids<T, Count, Id, Out, kRowsOfRound, Parts::one>);
    }
    return parts == Parts::one   ? run(pool_staged_ids<T, Count, Id, Out, kInFlight, Parts::one>)
           : parts == Parts::two ? run(pool_staged_ids<T, Count, Id, Out, kInFlight, Parts::two>)
                                 : run(pool_staged_ids<T, Count, Id, Out, kInFlight, Parts::many>);
  }
  switch (bags.hotness) {
    case 1:
      return run(pool_few_ids<T, Count, Id, Out, 1>);
    case 2:
      return run(pool_few_ids<T, Count, Id, Out, 2>);
    case 3:
      return run(pool_few_ids<T, Count, Id, Out, 3>);
    case 4:
      return run(pool_few_ids<T, Count, Id, Out, 4>);
    default:
      return run(pool_few_ids<T, Count, Id, Out, kFewIds>);
  }
}

template <class T, int Count>
bool launch_output(CudaStream stream, LookupArgs const& args) {
  bool launched = false;
  with_id_type("embedding_lookup", args.bags, [&](auto const& bags) {
    if (args.output_dtype == args.table_dtype) {
      launched = launch_plain<T, Count, T>(stream, args, bags);
    } else if (args.output_dtype == DType::float32) {
      launched = launch_plain<T, Count, float>(stream, args, bags);
    }
  });
  return launched;
}

template <class T>
bool launch_type(CudaStream stream, LookupArgs const& args) {
  auto const allows = [&](int count) {
    return allows_vectors(static_cast<T const*>(args.table), args.width, count) &&
           allows_stores(args.output, args.output_dtype, args.width, count);
  };
  constexpr int kWidest = 16 / sizeof(T);
  // Rows of at most 64 bytes are read 8 bytes at a time, by twice as many lanes.
  bool const is_narrow = args.width * static_cast<std::int64_t>(sizeof(T)) <= 64;
  if constexpr (kWidest > 4) {
    if (!allows(kWidest) || is_narrow) {
      return allows(4) && launch_output<T, 4>(stream, args);
    }
  }
  return allows(kWidest) && launch_output<T, kWidest>(stream, args);
}

}  // namespace

bool launch_plain_lookup(CudaStream stream, LookupArgs const& args) {
  if (!is_plain(args)) {
    return false;
  }
  bool launched = false;
  with_real_type("embedding_lookup: a table", args.table_dtype, [&](auto type) {
    launched = launch_type<typename decltype(type)::type>(stream, args);
  });
  return launched;
}

}  // namespace msstream::ops::kernels
