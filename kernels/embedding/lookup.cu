// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"
#include "embedding/checks.hpp"
#include "embedding/lookup.hpp"
#include "embedding/lookup_kernels.cuh"
#include "embedding/plain_tuning.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace msstream::ops::kernels {
namespace {

// Returns whether a lookup can use SharedIds: the lanes exchange row numbers of 32 bits, and
// multiply them by the bytes of a row, which must fit in 32 bits, too.
bool allows_shared_ids(LookupArgs const& args) {
  constexpr std::int64_t kBelow = std::numeric_limits<std::uint32_t>::max();
  return args.rows < kBelow &&
         args.width * static_cast<std::int64_t>(bytes_of(args.table_dtype)) < kBelow;
}

template <class T,
          int Count,
          template <class, class, bool>
          class Ids,
          template <int>
          class Combiner,
          class Tuning,
          class Id>
void launch(CudaStream stream,
            LookupArgs const& args,
            IdBags<Id> const& bags,
            BagShare const& share,
            int most_threads = Tuning::kThreads,
            int bags_of_run = 1) {
  int const threads = share.threads(most_threads);
  BagLanes const shape(args.width, Count, share, threads, bags_of_run);
  auto const bags_of_group = Tuning::kRunsBags ? bags_of_run : Tuning::kBagsAGroup;
  auto const blocks = grid_for(output_rows(args), shape.runs_a_block * bags_of_group);
  // Blocks that share bags, but not columns, differ in y, of which a grid has fewer than 2^16.
  constexpr std::int64_t kMostTurns = 65535;
  auto const turns = ceil_div<std::int64_t>(args.width, std::int64_t{share.lanes()} * Count);
  dim3 const grid(blocks,
                  static_cast<unsigned>(std::min(turns, kMostTurns)),
                  static_cast<unsigned>(ceil_div(turns, kMostTurns)));
  lookup_kernel<T, Count, Id, Ids, Combiner, Tuning>
      <<<grid, threads, 0, stream>>>(args, bags, shape);
  check_launch("embedding_lookup");
}

/// Launches a lookup whose lanes share the ids of a bag, as sums or, for `Combiner`, with weights
/// or positions of maxima. Returns false if groups have too few lanes for that.
template <class T, int Count, template <int> class Combiner, class Id>
bool launch_shared(CudaStream stream,
                   LookupArgs const& args,
                   IdBags<Id> const& bags,
                   BagShare const& share,
                   bool is_jagged,
                   bool is_short) {
  int const lanes = 1 << share.log2_lanes;
  auto const run = [&]<class Tuning>(int threads, int bags_of_run) -> bool {
    bool const fits =
        lanes * Tuning::kIdsALane >= std::max(Tuning::kRowsInFlight, Tuning::kBagsAGroup);
    if (fits) {
      launch<T, Count, SharedIds, Combiner, Tuning>(
          stream, args, bags, share, threads, bags_of_run);
    }
    return fits;
  };
  if constexpr (!std::is_same_v<Combiner<Count>, SumCombiner<Count>>) {
    return run.template operator()<LongBagsOfMoreSums>(LongBagsOfMoreSums::kThreads, 1);
  } else {
    constexpr bool kHasFewSums = Count <= 4;
    if (is_short) {
      using Short = std::conditional_t<kHasFewSums, ShortBags, ShortBagsOfMoreSums>;
      return run.template operator()<Short>(Short::kThreads, 1);
    }
    auto const groups = output_rows(args);
    auto const hotness = args.pooling == Pooling::none ? 1 : ceil_div(bags.capacity, groups);
    if (!is_jagged && hotness > 1 && hotness <= RunsOfEight::kRowsInFlight) {
      auto const of_run =
          bags_of_run(groups, share.lanes(), lanes * RunsOfEight::kIdsALane / hotness);
      if (of_run > 1) {
        return hotness <= RunsOfFour::kRowsInFlight
                   ? run.template operator()<RunsOfFour>(kThreadsOfSums, of_run)
                   : run.template operator()<RunsOfEight>(kThreadsOfSums, of_run);
      }
    }
    auto const rows = std::min(
        rows_in_flight(groups, args.width * static_cast<std::int64_t>(sizeof(T))), hotness);
    auto const launch_rolled = [&]<bool EqualBags>() {
      using Many =
          std::conditional_t<kHasFewSums, ManyBags<EqualBags>, ManyBagsOfHalves<EqualBags>>;
      using Few = FewBags<EqualBags>;
      return rows > Few::kRowsInFlight
                 ? run.template operator()<FewestBags<EqualBags>>(kThreadsOfSums, 1)
             : rows > Many::kRowsInFlight ? run.template operator()<Few>(kThreadsOfSums, 1)
                                          : run.template operator()<Many>(kThreadsOfSums, 1);
    };
    bool const is_equal = args.pooling != Pooling::none && !is_jagged;
    if (is_equal &&
        has_few_long_bags(groups, hotness, ceil_div<std::int64_t>(args.width, Count), Count) &&
        run.template operator()<FewestLongBags>(kThreadsOfSums, 1)) {
      return true;
    }
    return is_equal ? launch_rolled.template operator()<true>()
                    : launch_rolled.template operator()<false>();
  }
}

template <class T, int Count, template <int> class Combiner, class Id>
void launch_ids(CudaStream stream, LookupArgs const& args, IdBags<Id> const& bags) {
  // Maxima and weighted sums of many short bags are too rare to have separate kernels.
  constexpr bool kSums = std::is_same_v<Combiner<Count>, SumCombiner<Count>>;
  auto const share = share_of(ceil_div<std::int64_t>(args.width, Count));
  bool const is_jagged = args.pooling != Pooling::none && bags.offsets != nullptr;
  bool const is_short =
      has_many_short_bags(output_rows(args), bags.capacity, is_jagged, share.lanes());
  if constexpr (Count * sizeof(T) == 16 || (kSums && Count * sizeof(T) == 8)) {
    if (allows_shared_ids(args) &&
        launch_shared<T, Count, Combiner>(stream, args, bags, share, is_jagged, is_short)) {
      return;
    }
  }
  if constexpr (kSums) {
    if (is_short && !is_jagged) {
      return launch<T, Count, OwnIds, Combiner, ShortBagsOfNarrowRows>(stream, args, bags, share);
    }
  }
  launch<T, Count, OwnIds, Combiner, LongBagsOfNarrowRows>(stream, args, bags, share);
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
  // A row of at most 64 bytes is read 8 bytes at a time, if its elements allow that, so that at
  // least four lanes share the ids of a bag.
  bool const is_narrow = kWidest > 4 && args.width <= std::int64_t{4} * kWidest;
  if (allows(kWidest) && !is_narrow) {
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
  if (count == 0 || args.width == 0 || launch_plain_lookup(stream, args)) {
    return;
  }
  with_real_type("embedding_lookup: a table", args.table_dtype, [&](auto type) {
    launch_widest<typename decltype(type)::type>(stream, args);
  });
}

}  // namespace msstream::ops::kernels
