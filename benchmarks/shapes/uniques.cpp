// SPDX-License-Identifier: Apache-2.0
#include "cub_baselines.hpp"
#include "operations.hpp"

#include <bit>
#include <cstdint>
#include <functional>

namespace benchmarks::shapes {

namespace {

namespace ops = ms::ops;

/// Returns CUB's sort of the ids, by their lowest `bits` bits, and its search for runs.
template <class Id>
std::function<void()> cub_of(Workplace& workplace, Tensor<Id> const& ids, int bits) {
  auto const& device = workplace.device();
  auto const count = ids.count();
  auto const places = workplace.numbers(count);
  Tensor<Id> const sorted(device, {count});
  Tensor<std::int32_t> const sorted_places(device, {count});
  Tensor<Id> const values(device, {count});
  Tensor<std::int32_t> const counts(device, {count});
  Tensor<std::int64_t> const distinct(device, ms::Shape{});
  return [=, &workplace] {
    cub_unique<Id>(workplace.cub,
                   {.ids = ids.data(),
                    .places = reinterpret_cast<unsigned const*>(places.data()),
                    .count = count,
                    .bits = bits,
                    .sorted = sorted.data(),
                    .sorted_places = reinterpret_cast<unsigned*>(sorted_places.data()),
                    .values = values.data(),
                    .counts = counts.data(),
                    .distinct = distinct.data()},
                   workplace.stream());
  };
}

template <class Id>
Prepared prepare_ids(Workplace& workplace, Case const& what) {
  bool const is_hashed = what.operation == Operation::unique_hashed;
  bool const is_bounded = what.operation == Operation::unique_below;
  constexpr int kBits = std::bit_width(static_cast<std::uint64_t>(kTableRows));
  auto const ids = drawn_ids<Id>(workplace.device(),
                                 {what.places()},
                                 {.below = kTableRows, .skew = what.skew, .is_hashed = is_hashed});
  if (what.operation == Operation::deduplicate) {
    ops::Bags<ms::Cuda> const bags = ids;
    return {[=] { benchmark::DoNotOptimize(ops::deduplicate(bags, kTableRows)); },
            cub_of(workplace, ids, kBits),
            bytes_of(what, touched_by(ops::deduplicate(bags, kTableRows), 1))};
  }
  ops::UniqueOptions<ms::Cuda> options;
  if (is_bounded) {
    options.below = kTableRows;
  }
  if (what.operation == Operation::unique_by_occurrence) {
    options.order = ops::UniqueOrder::first_occurrence;
  }
  auto const distinct = static_cast<double>(ms::to_host(ops::unique(ids, options).count).front());
  return {[=] { benchmark::DoNotOptimize(ops::unique(ids, options)); },
          cub_of(workplace, ids, is_bounded ? kBits : what.id_bits),
          bytes_of(what, {distinct, distinct})};
}

}  // namespace

Prepared prepare_unique(Workplace& workplace, Case const& what) {
  return with_id_type(
      what, [&]<class Id>(std::type_identity<Id>) { return prepare_ids<Id>(workplace, what); });
}

}  // namespace benchmarks::shapes
