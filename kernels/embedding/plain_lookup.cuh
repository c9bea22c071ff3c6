// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/existing_places.hpp"
#include "common/id_report.cuh"
#include "common/long_sum.hpp"
#include "common/row_vector.cuh"
#include "embedding/plain_tuning.hpp"

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace msstream::ops::kernels {

// The kernels of plain lookups: sums without weights of bags of equally many ids, without a default
// id. The kernels are short, because a kernel that runs once on a cold cache mostly waits for its
// own instructions, and have no branches on how a lookup is configured.
//
//   thread    (x, y): columns [x * Count, (x + 1) * Count) of bag blockIdx.x * blockDim.y + y
//   block     any number of lanes per bag, not only powers of two, so no lane idles in rows of, for
//             example, 24 loads
//
// Threads exchange nothing but ids in shared memory, so those without a bag may return early.

/// A plain lookup. The bytes of a row and the loads of all rows are below 2^32 - 1, the ids of all
/// bags below 2^31.
template <class T, class Id>
struct PlainLookup {
  T const* table;
  Id const* ids;
  void* output;
  std::uint32_t rows;
  std::uint32_t width;
  std::uint32_t bags;
  std::uint32_t hotness;
  IdReport report;

  [[nodiscard]] __device__ bool has_row(Id id) const {
    return static_cast<std::make_unsigned_t<Id>>(id) < rows;
  }
  /// Returns the address of a row's columns, from that of the columns in row 0 and the number of
  /// loads of all rows before the row. The compiler makes it one instruction, unlike a product with
  /// the bytes of a row, which are not constant.
  template <int Count>
  [[nodiscard]] static __device__ T const* after(T const* columns, std::uint32_t loads) {
    return columns + std::size_t{loads} * Count;
  }
  [[nodiscard]] __device__ std::uint32_t loads_before(Id row) const {
    return static_cast<std::uint32_t>(row) * blockDim.x;
  }
  template <class Out, int Count>
  __device__ void store(std::uint32_t bag, Columns<Count> const& sum) const {
    auto* const to = static_cast<Out*>(output) + threadIdx.x * Count;
    store_narrowed<Out>(at(to, bag, width * std::uint32_t{sizeof(Out)}), sum);
  }

 private:
  /// Returns `from` plus a product of two factors of 32 bits.
  template <class Element>
  static __device__ Element* at(Element* from, std::uint32_t number, std::uint32_t bytes) {
    Element* to;
    asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(to) : "r"(number), "r"(bytes), "l"(from));
    return to;
  }
};

/// Reports the ids of one bag that are no rows. Not inlined, so that the rare case costs the caller
/// no registers.
template <class Id>
__device__ __noinline__ void report_bad_ids_of(IdReport report,
                                               std::uint32_t rows,
                                               Id const* ids,
                                               std::uint32_t count) {
  if (report.count == nullptr && report.trap == nullptr) {
    return;
  }
  OutOfRangeIds bad;
#pragma unroll 1
  for (std::uint32_t k = 0; k < count; ++k) {
    if (Id const id = ids[k]; !is_in_range(id, rows)) {
      bad.add(id);
    }
  }
  if (bad.count > 0 && report.count != nullptr) {
    atomicAdd(reinterpret_cast<unsigned long long*>(report.count),
              static_cast<unsigned long long>(bad.count));
  }
  if (bad.count > 0 && report.trap != nullptr) {
    spring_trap(report, bad.first, rows);
  }
}

/// Returns the most registers of a thread that requests `rows` rows of `packed` registers each and
/// keeps `sums` sums: enough to request all rows before the first is added, and few enough for many
/// warps.
[[nodiscard]] constexpr int registers_for(int rows, int packed, int sums) {
  int const needed = rows * packed + sums + (rows > 8 ? rows : 0);
  return needed <= 12   ? 32
         : needed <= 20 ? 40
         : needed <= 36 ? 48
         : needed <= 40 ? 56
         : needed <= 52 ? 64
                        : 96;
}
template <class T, int Count>
inline constexpr int kRegistersOfRow = Count* static_cast<int>(sizeof(T)) / 4;

/// Pools bags of `Ids` ids, or of at most kFewIds if `Ids` is kFewIds. Each thread reads the ids of
/// its bag itself, which takes less time than an exchange of ids, and requests all rows at once. A
/// bad id has a row of zeros, which changes no sum that starts at 0.
template <class T, int Count, class Id, class Out, int Ids>
__global__ void __launch_bounds__(kPlainThreads)
    __maxnreg__(registers_for(Ids, kRegistersOfRow<T, Count>, Count))
        pool_few_ids(PlainLookup<T, Id> lookup) {
  std::uint32_t const bag = blockIdx.x * blockDim.y + threadIdx.y;
  if (bag >= lookup.bags) {
    return;
  }
  std::uint32_t const hotness = Ids < kFewIds ? std::uint32_t{Ids} : lookup.hotness;
  auto const* const from = lookup.ids + bag * hotness;
  Id ids[Ids];
#pragma unroll
  for (int k = 0; k < Ids; ++k) {
    ids[k] = Ids < kFewIds || k < static_cast<int>(hotness) ? __ldg(from + k) : Id{-1};
  }
  auto const* const columns = lookup.table + threadIdx.x * Count;
  PackedColumns<T, Count> packed[Ids];
  bool has_bad = false;
#pragma unroll
  for (int k = 0; k < Ids; ++k) {
    bool const is_row = lookup.has_row(ids[k]);
    has_bad = has_bad || (!is_row && k < static_cast<int>(hotness));
    packed[k] = load_packed_if<Count>(
        is_row, lookup.template after<Count>(columns, lookup.loads_before(ids[k])));
  }
  Columns<Count> sum;
#pragma unroll
  for (int k = 0; k < Ids; ++k) {
    sum.add(packed[k].widened());
  }
  lookup.template store<Out>(bag, sum);
  if (has_bad && threadIdx.x == 0) {
    report_bad_ids_of(lookup.report, lookup.rows, from, hotness);
  }
}

/// How many parts of kRowsOfPart rows a bag has.
enum class Parts : std::uint8_t { one, two, many };

/// The sum of the parts of a bag before the last. The float64 total of the first part is the part,
/// and is kept as float32. The totals of more parts are in shared memory, which leaves the
/// registers to the rows in flight: local memory would be written to the memory that the rows come
/// from.
template <int Count, Parts Number>
class PartTotals {
 public:
  static constexpr bool kShared = Number == Parts::many;

  /// Constructs totals from the address, in shared memory, of 8 * Count bytes for each thread of
  /// the block, unused unless kShared.
  __device__ explicit PartTotals(std::uint32_t shared) : shared_(shared) {}
  /// Adds the sum of a part to the total and clears it.
  __device__ void fold(Columns<Count>& part, bool is_first) {
    if constexpr (Number == Parts::two) {
      first_ = part;
    } else if constexpr (kShared) {
#pragma unroll
      for (int c = 0; c < Count; ++c) {
        auto const before = is_first ? 0.0 : get(c);
        asm volatile("st.shared.f64 [%0], %1;" ::"r"(address(c)),
                     "d"(__dadd_rn(before, static_cast<double>(part.at[c])))
                     : "memory");
      }
    }
    part = {};
  }
  /// Returns the total plus the sum of the last part.
  __device__ Columns<Count> with(Columns<Count> const& part) const {
    Columns<Count> sums = part;
    if constexpr (Number != Parts::one) {
#pragma unroll
      for (int c = 0; c < Count; ++c) {
        sums.at[c] = static_cast<float>(__dadd_rn(get(c), static_cast<double>(part.at[c])));
      }
    }
    return sums;
  }

 private:
  __device__ double get(int c) const {
    if constexpr (kShared) {
      double total;
      asm volatile("ld.shared.f64 %0, [%1];" : "=d"(total) : "r"(address(c)) : "memory");
      return total;
    } else {
      return first_.at[c];
    }
  }

  /// Returns the address of a total, computed when needed, which keeps one register.
  __device__ std::uint32_t address(int c) const {
    std::uint32_t const thread = threadIdx.y * blockDim.x + threadIdx.x;
    return shared_ + (c * blockDim.x * blockDim.y + thread) * std::uint32_t{sizeof(double)};
  }

  Columns<Number == Parts::two ? Count : 1> first_;
  std::uint32_t shared_;
};

/// Pools bags whose ids a block first copies to shared memory, as the numbers of loads of all rows
/// before theirs, or kNoRow for bad ids and after the last id of a bag. If all ids of the block are
/// rows, InFlight rows are requested at a time without any check. A lane reads the numbers of four
/// rows at a time: each read occupies one of the six barriers by which a warp waits for loads, and
/// a row that shared a barrier with a later number would have to arrive before that number's row is
/// requested.
template <class T, int Count, class Id, class Out, int InFlight, Parts Number>
__global__ void __launch_bounds__(kPlainThreads) __maxnreg__(
    registers_for(InFlight, kRegistersOfRow<T, Count>, Number == Parts::one ? Count : 2 * Count))
    pool_staged_ids(PlainLookup<T, Id> lookup) {
  static_assert(kRowsOfPart % InFlight == 0 && InFlight <= kRowsOfRound && InFlight % 4 == 0);
  constexpr std::uint32_t kNoRow = 0xFFFFFFFFU;
  constexpr std::uint32_t kBytes = sizeof(kNoRow);
  constexpr std::uint32_t kIdsAtOnce = 8;
  extern __shared__ uint4 shared[];
  std::uint32_t const bag = blockIdx.x * blockDim.y + threadIdx.y;
  std::uint32_t const hotness = lookup.hotness;
  auto* const rows = reinterpret_cast<std::uint32_t*>(shared) + threadIdx.y * staged_rows(hotness);
  bool has_bad = false;
  if (bag < lookup.bags) {
    auto const* const from = lookup.ids + bag * hotness;
    auto const places = rounds_of(hotness);
#pragma unroll 1
    for (auto first = threadIdx.x; first < places; first += kIdsAtOnce * blockDim.x) {
      Id ids[kIdsAtOnce];
#pragma unroll
      for (std::uint32_t i = 0; i < kIdsAtOnce; ++i) {
        auto const k = first + i * blockDim.x;
        ids[i] = k < hotness ? __ldg(from + k) : Id{-1};
      }
#pragma unroll
      for (std::uint32_t i = 0; i < kIdsAtOnce; ++i) {
        auto const k = first + i * blockDim.x;
        bool const is_row = lookup.has_row(ids[i]);
        has_bad |= k < hotness && !is_row;
        if (k < places) {
          rows[k] = is_row ? lookup.loads_before(ids[i]) : kNoRow;
        }
      }
    }
  }
  bool const is_any_bad = __syncthreads_or(static_cast<int>(has_bad)) != 0;
  if (bag >= lookup.bags) {
    return;
  }
  auto const* columns = lookup.table + threadIdx.x * Count;
  asm volatile("" : "+l"(columns));
  Columns<Count> sum;
  auto const add_round = [&](auto all, std::uint32_t next) {
    std::uint32_t row[InFlight];
#pragma unroll
    for (int k = 0; k < InFlight; k += 4) {
      // An address of shared memory takes one register, a pointer two.
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(row[k]), "=r"(row[k + 1]), "=r"(row[k + 2]), "=r"(row[k + 3])
                   : "r"(next + k * kBytes));
    }
    PackedColumns<T, Count> packed[InFlight];
#pragma unroll
    for (int k = 0; k < InFlight; ++k) {
      auto const* const from = lookup.template after<Count>(columns, row[k]);
      packed[k] = all ? load_packed<Count>(from) : load_packed_if<Count>(row[k] != kNoRow, from);
    }
#pragma unroll
    for (int k = 0; k < InFlight; ++k) {
      sum.add(packed[k].widened());
    }
  };
  auto const begin = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  PartTotals<Count, Number> totals(begin + blockDim.y * staged_rows(hotness) * kBytes);
  auto next = begin + threadIdx.y * staged_rows(hotness) * kBytes;
  std::uint32_t const last = next + hotness * kBytes;
  for (bool is_first = true;; is_first = false) {
    std::uint32_t const end = Number == Parts::one ? last : min(next + kRowsOfPart * kBytes, last);
    std::uint32_t const whole = is_any_bad ? 0 : end;
#pragma unroll 1
    for (; next + InFlight * kBytes <= whole; next += InFlight * kBytes) {
      add_round(std::true_type{}, next);
    }
#pragma unroll 1
    for (; next < end; next += InFlight * kBytes) {
      add_round(std::false_type{}, next);
    }
    if (Number == Parts::one || next >= last) {
      break;
    }
    totals.fold(sum, is_first);
  }
  lookup.template store<Out>(bag, totals.with(sum));
  if (is_any_bad && threadIdx.x == 0) {
    report_bad_ids_of(lookup.report, lookup.rows, lookup.ids + bag * hotness, hotness);
  }
}

}  // namespace msstream::ops::kernels
