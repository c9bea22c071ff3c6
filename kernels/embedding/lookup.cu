// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"
#include "embedding/checks.hpp"
#include "embedding/lookup.hpp"
#include "embedding/lookup_kernels.cuh"

#include <cstdint>
#include <limits>
#include <type_traits>

namespace msstream::ops::kernels {
namespace {

// Returns whether a lookup can use SharedIds in groups of at least `lanes` lanes: the lanes
// exchange row numbers of 32 bits, and multiply them by the bytes of a row, which must fit in 32
// bits, too.
bool allows_shared_ids(LookupArgs const& args, RowLanes const& shape, int lanes) {
  constexpr std::int64_t kBelow = std::numeric_limits<std::uint32_t>::max();
  return shape.lanes() >= lanes && args.rows < kBelow &&
         args.width * static_cast<std::int64_t>(bytes_of(args.table_dtype)) < kBelow;
}

template <class T,
          int Count,
          template <class, int, bool>
          class Ids,
          template <int>
          class Combiner,
          class Tuning,
          class Id>
void launch(CudaStream stream,
            LookupArgs const& args,
            IdBags<Id> const& bags,
            RowLanes const& shape) {
  auto const rows_a_block = Tuning::kBagsAGroup * (Tuning::kThreads / shape.lanes());
  auto const blocks = grid_for(output_rows(args), rows_a_block);
  lookup_kernel<T, Count, Id, Ids, Combiner, Tuning>
      <<<blocks, Tuning::kThreads, 0, stream>>>(args, bags, shape);
  check_launch("embedding_lookup");
}

template <class T, int Count, template <int> class Combiner, class Id>
void launch_ids(CudaStream stream, LookupArgs const& args, IdBags<Id> const& bags) {
  RowLanes const shape(args.width, Count);
  // Maxima and weighted sums of many short bags are too rare to have separate kernels.
  constexpr bool kHasShort = std::is_same_v<Combiner<Count>, SumCombiner<Count>>;
  constexpr bool kHasFewSums = kHasShort && Count <= 4;
  constexpr int kLanesOfSharedIds = 8;
  bool const is_jagged = args.pooling != Pooling::none && bags.offsets != nullptr;
  bool const is_short =
      has_many_short_bags(output_rows(args), bags.capacity, is_jagged, shape.lanes());
  if constexpr (Count * sizeof(T) == 16) {
    using LongSums = std::conditional_t<kHasFewSums, LongBags, LongBagsOfHalves>;
    using Long = std::conditional_t<kHasShort, LongSums, LongBagsOfMoreSums>;
    using Short = std::conditional_t<kHasFewSums, ShortBags, ShortBagsOfMoreSums>;
    if (allows_shared_ids(args, shape, kLanesOfSharedIds)) {
      if constexpr (kHasShort) {
        if (is_short && shape.lanes() >= Short::kBagsAGroup) {
          return launch<T, Count, SharedIds, Combiner, Short>(stream, args, bags, shape);
        }
      }
      return launch<T, Count, SharedIds, Combiner, Long>(stream, args, bags, shape);
    }
  }
  if constexpr (kHasShort) {
    if (is_short && !is_jagged) {
      return launch<T, Count, OwnIds, Combiner, ShortBagsOfNarrowRows>(stream, args, bags, shape);
    }
  }
  launch<T, Count, OwnIds, Combiner, LongBagsOfNarrowRows>(stream, args, bags, shape);
}

template <class T, int Count>
void launch_combiner(CudaStream stream, LookupArgs const& args) {
  with_id_type("embedding_lookup", args.bags, [&](auto const& bags) {
    if (args.pooling == Pooling::max) {
      launch_ids<T, Count, MaxCombiner>(stream, args, bags);
    } else if (args.bags.weights != nullptr) {
      launch_ids<T, Count, WeightedCombiner>(stream, args, bags);
    } else {
      launch_ids<T, Count, SumCombiner>(stream, args, bags);
    }
  });
}

/// Launches the lookup kernel with the widest loads that the width and the alignment of all arrays
/// allow.
template <class T>
void launch_widest(CudaStream stream, LookupArgs const& args) {
  auto const allows = [&](int count) {
    return allows_vectors(static_cast<T const*>(args.table), args.width, count) &&
           allows_stores(args.output, args.output_dtype, args.width, count) &&
           allows_stores(args.argmax, DType::int32, args.width, count);
  };
  constexpr int kWidest = 16 / sizeof(T);
  if (allows(kWidest)) {
    launch_combiner<T, kWidest>(stream, args);
  } else if (kWidest > 4 && allows(4)) {
    launch_combiner<T, 4>(stream, args);
  } else {
    launch_combiner<T, 1>(stream, args);
  }
}

}  // namespace

void embedding_lookup(CudaStream stream, LookupArgs const& args) {
  require_lookup(args);
  auto const count = output_rows(args);
  if (count == 0 || args.width == 0) {
    return;
  }
  with_real_type("embedding_lookup: a table", args.table_dtype, [&](auto type) {
    launch_widest<typename decltype(type)::type>(stream, args);
  });
}

}  // namespace msstream::ops::kernels
