// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/existing_places.hpp"
#include "common/launch.cuh"
#include "common/warp_reduce.cuh"
#include "embedding/combiners.cuh"
#include "embedding/lookup.hpp"
#include "embedding/lookup_ids.cuh"
#include "embedding/tuning.hpp"

#include <cstdint>
#include <type_traits>

namespace msstream::ops::kernels {

// The grid of a lookup, here of 24 loads a row: three groups of 8 lanes per bag, 96 threads per
// block, so 4 bags per block:
//
//   warp     |              0               |              1               |              2
//   lanes    |  0-7    8-15   16-23  24-31  |  0-7    8-15   16-23  24-31  |  0-7  ...
//   bag      |   b      b       b    b + 1  | b + 1  b + 1   b + 2  b + 2  | b + 2  b + 3 ...
//   slice    |   0      1       2      0    |   1      2       0      1    |   2      0   ...
//   a lane:    columns [c, c + Count), c = (slice * lanes + lane) * Count; wider rows continue
//              in blocks of another y
//
// A kernel consists of a source of ids (SharedIds or OwnIds), a loader (reads an id's columns) and
// a combiner (pools rows into one). All lanes of a warp stay to the end and take the same branches,
// because they exchange ids and report bad ones together.

/// Reads the columns of table rows that the calling lane processes.
template <class T, int Count>
class TableLoader {
 public:
  /// Constructs a loader from a pointer to the lane's columns in row 0, `first_columns`, and the
  /// width of a row.
  __device__ TableLoader(T const* first_columns, std::int64_t row_width)
      : columns_(first_columns), width_(row_width) {}

  __device__ PackedColumns<T, Count> load(auto row) const { return load_packed<Count>(at(row)); }
  __device__ PackedColumns<T, Count> load_if(bool is_row, auto row) const {
    return load_packed_if<Count>(is_row, at(row));
  }

 private:
  /// Computes the address of a row in one instruction: both the row number and a row's bytes are
  /// below 2^32.
  __device__ T const* at(std::uint32_t row) const {
    auto const row_bytes = static_cast<std::uint32_t>(width_) * std::uint32_t{sizeof(T)};
    T const* from;
    asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(from) : "r"(row), "r"(row_bytes), "l"(columns_));
    return from;
  }
  __device__ T const* at(std::int64_t row) const { return columns_ + row * width_; }

  T const* columns_;
  std::int64_t width_;
};

/// Writes the columns of bags' output rows that the calling lane processes.
template <class Combiner, class Loader, class Id>
struct BagWriter {
  LookupArgs const& args;
  IdBags<Id> const& bags;
  Loader const& loader;
  unsigned column;

  /// Adds the row of the default id to the result of a bag that has no valid id, if there is a
  /// default id.
  __device__ void add_default(Combiner& combiner, std::int64_t bag) const {
    if (combiner.is_empty() && args.pooling != Pooling::none &&
        is_in_range(bags.default_id, args.rows) && bag < bags.existing()) {
      combiner.add(loader.load(bags.default_id).widened(), 1.0F, bags.capacity + bag);
    }
  }
  template <int Count>
  __device__ void store(std::int64_t bag, Columns<Count> const& pooled) const {
    store_as(args.output, args.output_dtype, bag * args.width + column, pooled);
  }
  /// Reports the ids that are no rows, unless all ids of the warp are rows.
  template <class Ids>
  __device__ void report(bool are_rows, Ids const& ids, RowLanes const& shape, bool reports) const {
    if (!are_rows && (args.report.count != nullptr || args.report.trap != nullptr)) {
      ids.report(args.report, args.rows, shape, reports);
    }
  }
  __device__ void store_places(std::int64_t bag, Combiner const& combiner) const {
    if constexpr (Combiner::kTellsPlaces) {
      if (args.argmax != nullptr) {
        store_as(args.argmax, DType::float32, bag * args.width + column, combiner.places());
      }
    }
  }
};

/// Requests the rows of kInFlight received ids, from number `first` on, then calls add(k, row,
/// whether there is a row, weight) for each in order. `all` is true if every one of these ids is a
/// row of the table.
template <int kInFlight, class All, class Loader, class Ids, class Add>
__device__ void add_rows(All all, Loader const& loader, Ids const& ids, int first, Add const& add) {
  decltype(loader.load(std::int64_t{})) packed[kInFlight];
  unsigned valid = 0;
#pragma unroll
  for (int k = 0; k < kInFlight; ++k) {
    auto const row = ids.row(first, k);
    bool const is_row = all || row != kNoRow<typename Ids::Row>;
    valid |= is_row ? 1U << k : 0U;
    packed[k] = all ? loader.load(row) : loader.load_if(is_row, row);
  }
#pragma unroll
  for (int k = 0; k < kInFlight; ++k) {
    add(k, packed[k].widened(), all || (valid >> k & 1U) != 0, ids.weight(first, k));
  }
}

/// Pools the rows of one bag by a group of lanes, in the order of the positions. All lanes of a
/// warp call pool_bag() together and continue until the longest of their bags ends; up to the end
/// of the shortest bag they need not check which ids exist.
template <class Tuning, class Ids, class Combiner, class Writer>
__device__ void pool_bag(Writer const& writer,
                         RowLanes const& shape,
                         GroupPlaces const& places,
                         std::int64_t bag,
                         bool stores,
                         bool reports) {
  constexpr int kInFlight = Tuning::kRowsInFlight;
  static_assert(kRowsOfPart % 32 == 0 && kRowsOfPart % kInFlight == 0, "parts end between rounds");
  // The reductions of the counts over the warp also show the compiler that all lanes take the same
  // branches.
  int const longest = warp_max(places.count);
  int const shortest = warp_min(places.count);
  Combiner combiner(writer.args.pooling);
  typename Combiner::Whole sums_of_parts;
  Ids ids(writer.bags, places, shape);
  bool are_all_rows = true;
  if (Ids::kRequestsAhead && longest > 0) {
    ids.request(0);
  }
  for (int next = 0; next < longest; next += ids.places()) {
    if (!Ids::kRequestsAhead) {
      ids.request(next);
    }
    bool const are_rows = ids.receive(writer.args.rows);
    are_all_rows = are_all_rows && are_rows;
    if (Ids::kRequestsAhead && next + ids.places() < longest) {
      ids.request(next + ids.places());
    }
    int const received = min(longest - next, ids.places());
    int const whole = are_rows ? min(shortest - next, received) : 0;
    auto const add = [&](int i, auto const& row, bool is_row, float weight) {
      if (is_row) {
        combiner.add(row, weight, places.begin + next + i);
      }
    };
    for (int first = 0; first < received; first += kInFlight) {
      auto const add_next = [&](int k, auto const& row, bool is_row, float weight) {
        add(first + k, row, is_row, weight);
      };
      if (first + kInFlight <= whole) {
        add_rows<kInFlight>(std::true_type{}, writer.loader, ids, first, add_next);
      } else {
        add_rows<kInFlight>(std::false_type{}, writer.loader, ids, first, add_next);
      }
    }
    // Groups whose bags have ended add zeros to their totals until the longest bag of the warp
    // ends.
    int const done = next + ids.places();
    if (done % kRowsOfPart == 0 && done < longest) {
      combiner.fold(sums_of_parts, done == kRowsOfPart);
    }
  }
  if (longest > kRowsOfPart) {
    combiner.unfold(sums_of_parts);
  }
  if (stores) {
    writer.add_default(combiner, bag);
    writer.store(bag, combiner.finish(writer.args.pooling));
    writer.store_places(bag, combiner);
  }
  writer.report(are_all_rows, ids, shape, reports);
}

/// Pools the rows of one bag like pool_bag(), without weights, and requests another row for each
/// row that it adds, up to the end of the shortest bag of the warp. If all bags of a launch have
/// equally many ids, `places` are those of another bag for a bag that does not `exist`.
template <class Tuning, class Ids, class Combiner, class Writer>
__device__ void roll_bag(Writer const& writer,
                         RowLanes const& shape,
                         GroupPlaces const& places,
                         std::int64_t bag,
                         bool exists,
                         bool stores,
                         bool reports) {
  constexpr int kInFlight = Tuning::kRowsInFlight;
  static_assert(!Combiner::kWeighted && !Combiner::kTellsPlaces, "a row has no weight or place");
  int const longest = Tuning::kEqualBags ? places.count : warp_max(places.count);
  int const shortest = Tuning::kEqualBags ? places.count : warp_min(places.count);
  Combiner combiner(writer.args.pooling);
  typename Combiner::Whole sums_of_parts;
  Ids ids(writer.bags, places, shape);
  int const at_once = ids.places();
  bool are_rows = false;
  bool are_all_rows = true;
  auto const receive = [&](int next) {
    are_rows = ids.receive(writer.args.rows);
    are_all_rows = are_all_rows && are_rows;
    if (next + at_once < longest) {
      ids.request(next + at_once);
    }
  };
  // Returns how many rows of the received ids, from position `next` on, can be rolled.
  auto const whole_from = [&](int next) {
    return are_rows ? max(min(shortest - next, at_once), 0) / kInFlight * kInFlight : 0;
  };
  auto const fold_at = [&](int done) {
    if (done % kRowsOfPart == 0 && done < longest) {
      combiner.fold(sums_of_parts, done == kRowsOfPart);
    }
  };
  if (longest > 0) {
    ids.request(0);
    receive(0);
  }
  int next = 0;   // the position of the first received id
  int first = 0;  // the number of the next received id whose row is added
  if (int whole = longest > 0 ? whole_from(0) : 0; whole > 0) {
    decltype(writer.loader.load(std::int64_t{})) packed[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      packed[k] = writer.loader.load(ids.row(0, k));
    }
    while (whole > 0) {
#pragma unroll 1
      for (; first < whole - kInFlight; first += kInFlight) {
#pragma unroll
        for (int k = 0; k < kInFlight; ++k) {
          combiner.add(packed[k].widened(), 1.0F, 0);
          packed[k] = writer.loader.load(ids.row(first + kInFlight, k));
        }
      }
      bool const crosses = whole == at_once && next + at_once < longest;
      first = whole;
      whole = 0;
      if (crosses) {
        next += at_once;
        first = 0;
        receive(next);
        whole = whole_from(next);
      }
      if (whole > 0) {
#pragma unroll
        for (int k = 0; k < kInFlight; ++k) {
          combiner.add(packed[k].widened(), 1.0F, 0);
          packed[k] = writer.loader.load(ids.row(0, k));
        }
      } else {
#pragma unroll
        for (int k = 0; k < kInFlight; ++k) {
          combiner.add(packed[k].widened(), 1.0F, 0);
        }
      }
      if (crosses) {
        fold_at(next);
      }
    }
  }
  // Groups whose bags have ended add zeros to their totals until the longest bag of the warp ends.
  while (next < longest) {
    int const received = min(longest - next, at_once);
#pragma unroll 1
    for (; first < received; first += kInFlight) {
      add_rows<kInFlight>(std::false_type{},
                          writer.loader,
                          ids,
                          first,
                          [&](int, auto const& row, bool is_row, float weight) {
                            if (is_row) {
                              combiner.add(row, weight, 0);
                            }
                          });
    }
    first = 0;
    next += at_once;
    if (next < longest) {
      fold_at(next);
      receive(next);
    }
  }
  if (longest > kRowsOfPart) {
    combiner.unfold(sums_of_parts);
  }
  if (!exists) {
    combiner = Combiner(writer.args.pooling);
  }
  if (stores) {
    writer.add_default(combiner, bag);
    writer.store(bag, combiner.finish(writer.args.pooling));
  }
  writer.report(are_all_rows, ids, shape, reports);
}

/// Pools the rows of a run of bags of equal hotness, at most Tuning::kRowsInFlight, by a group of
/// lanes. While the rows of a bag are added, those of the next are requested. The lanes read the
/// ids of all bags at once.
template <class Tuning, class Ids, class Combiner, class Writer>
__device__ void run_bags(Writer const& writer,
                         BagLanes const& shape,
                         std::int64_t first_bag,
                         int here,
                         bool has_column,
                         bool reports) {
  constexpr int kInFlight = Tuning::kRowsInFlight;
  int const hotness = static_cast<int>(writer.bags.hotness);
  int const bags = shape.bags_of_run;
  auto const existing = static_cast<int>(clamped(writer.bags.existing() - first_bag, bags));
  GroupPlaces const places{first_bag * hotness, existing * hotness};
  Ids ids(writer.bags, places, shape);
  ids.request(0);
  bool const are_rows = ids.receive(writer.args.rows);
  auto const run = [&](auto all) {
    decltype(writer.loader.load(std::int64_t{})) packed[kInFlight];
    unsigned valid = 0;
    auto const load = [&](int k, int number) {
      auto const row = ids.row_at(number);
      if (all) {
        packed[k] = writer.loader.load(row);
      } else {
        bool const is_row = row != kNoRow<typename Ids::Row>;
        valid = (valid & ~(1U << k)) | (is_row ? 1U << k : 0U);
        packed[k] = writer.loader.load_if(is_row, row);
      }
    };
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (k < hotness) {
        load(k, k);
      }
    }
    int next = 0;
#pragma unroll 1
    for (int i = 0; i < bags; ++i) {
      next += hotness;
      Combiner combiner(writer.args.pooling);
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        if (k < hotness) {
          if (all || (valid >> k & 1U) != 0) {
            combiner.add(packed[k].widened(), 1.0F, 0);
          }
          if (i + 1 < bags) {
            load(k, next + k);
          }
        }
      }
      if (has_column && i < here) {
        writer.add_default(combiner, first_bag + i);
        writer.store(first_bag + i, combiner.finish(writer.args.pooling));
      }
    }
  };
  if (__all_sync(kAllLanes, are_rows && existing == bags) != 0) {
    run(std::true_type{});
  } else {
    run(std::false_type{});
    writer.report(are_rows, ids, shape, reports);
  }
}

/// Writes the output rows of `kBags` bags of one id each by a group of lanes. `kInFlight` rows are
/// requested before the first of them is written.
template <int kBags, int kInFlight, class Ids, class Combiner, class Writer>
__device__ void gather_bags(Writer const& writer,
                            RowLanes const& shape,
                            GroupPlaces const& places,
                            std::int64_t first_bag,
                            int here,
                            bool stores,
                            bool reports) {
  static_assert(Ids::kRequestsAhead || kBags == kInFlight, "own ids are received in flight alone");
  Ids ids(writer.bags, places, shape);
  ids.request(0);
  bool const are_rows = ids.receive(writer.args.rows);
  bool const is_whole = __all_sync(
      0xFFFFFFFFU, are_rows && places.skipped <= 0 && places.count == kBags && here == kBags);
#pragma unroll
  for (int first = 0; first < kBags; first += kInFlight) {
    auto const write = [&](auto all) {
      add_rows<kInFlight>(
          all, writer.loader, ids, first, [&](int k, auto const& row, bool is_row, float weight) {
            auto const bag = first_bag + first + k;
            if (stores && (all || first + k < here)) {
              Combiner combiner(writer.args.pooling);
              if (is_row) {
                combiner.add(row, weight, places.begin + first + k);
              }
              if (!all) {
                writer.add_default(combiner, bag);
              }
              writer.store(bag, combiner.finish_one());
            }
          });
    };
    if (is_whole) {
      write(std::true_type{});
    } else {
      write(std::false_type{});
    }
  }
  writer.report(are_rows, ids, shape, reports);
}

/// Performs one embedding lookup. A group of lanes processes its slice of Tuning::kBagsAGroup bags
/// or of a run of bags.
template <class T,
          int Count,
          class Id,
          template <class, class, bool>
          class IdsOf,
          template <int>
          class CombinerOf,
          class Tuning>
__global__ void __launch_bounds__(Tuning::kThreads, Tuning::kBlocksAnSm)
    lookup_kernel(LookupArgs args, IdBags<Id> bags, BagLanes shape) {
  constexpr int kInFlight = Tuning::kRowsInFlight;
  constexpr int kBags = Tuning::kBagsAGroup;
  using Combiner = CombinerOf<Count>;
  using Ids = IdsOf<Id, Tuning, Combiner::kWeighted>;
  using Loader = TableLoader<T, Count>;
  static_assert(kBags % kInFlight == 0 || kBags == 1);
  bool const pools = args.pooling != Pooling::none;
  int const group = static_cast<int>(threadIdx.x) >> shape.log2_lanes;
  int const run = shape.slices == 1 ? group : group / shape.slices;
  int const slice = group - run * shape.slices;
  int const bags_of_group = Tuning::kRunsBags ? shape.bags_of_run : kBags;
  auto const first_bag =
      (static_cast<std::int64_t>(blockIdx.x) * shape.runs_a_block + run) * bags_of_group;
  bool const good = kBags > 1 && all_look_good<kBags>(bags, pools, first_bag, shape);
  auto const here =
      static_cast<int>(clamped((pools ? bags.bags : bags.capacity) - first_bag, bags_of_group));
  // Rows wider than all slices of a bag continue in further blocks.
  unsigned const turn = blockIdx.y + gridDim.y * blockIdx.z;
  auto const column =
      ((turn * shape.slices + slice) * shape.lanes() + shape.lane()) * static_cast<unsigned>(Count);
  bool const has_column = column < shape.width;
  // Lanes beyond the last column read the first column, which costs nothing, because another lane
  // reads it anyway.
  Loader const loader(static_cast<T const*>(args.table) + (has_column ? column : 0), shape.width);
  BagWriter<Combiner, Loader, Id> const writer{args, bags, loader, column};
  bool const reports = turn == 0 && slice == 0;
  if constexpr (Tuning::kRunsBags) {
    run_bags<Tuning, Ids, Combiner>(writer, shape, first_bag, here, has_column, reports);
  } else if constexpr (Tuning::kRollsRows) {
    bool const exists = !Tuning::kEqualBags || first_bag < bags.existing();
    roll_bag<Tuning, Ids, Combiner>(
        writer,
        shape,
        Tuning::kEqualBags ? places_of_equal_bag(bags, first_bag)
                           : places_of_bag(args, bags, first_bag, shape, good, reports),
        first_bag,
        exists,
        has_column && here == 1,
        reports && exists);
  } else if constexpr (kBags == 1) {
    pool_bag<Tuning, Ids, Combiner>(writer,
                                    shape,
                                    places_of_bag(args, bags, first_bag, shape, good, reports),
                                    first_bag,
                                    has_column && here == 1,
                                    reports);
  } else if (has_one_place_each<kBags>(bags, pools, first_bag, shape, good)) {
    gather_bags<kBags, kInFlight, Ids, Combiner>(writer,
                                                 shape,
                                                 places_of_bags<kBags>(bags, pools, first_bag),
                                                 first_bag,
                                                 here,
                                                 has_column,
                                                 reports);
  } else {
#pragma unroll 1
    for (int i = 0; i < kBags; ++i) {
      pool_bag<Tuning, Ids, Combiner>(
          writer,
          shape,
          places_of_bag(args, bags, first_bag + i, shape, good, reports),
          first_bag + i,
          has_column && i < here,
          reports);
    }
  }
}

}  // namespace msstream::ops::kernels
