// SPDX-License-Identifier: Apache-2.0
#include "operations.hpp"
#include "tables.hpp"

#include <cstdint>

namespace benchmarks::shapes {

namespace {

namespace ops = ms::ops;
using ops::Pooling;
using Bags = ops::Bags<ms::Cuda>;

/// Returns bags of equal lengths with skewed ids, or bags of skewed lengths with uniform ids.
template <class Id>
Bags bags_of(Device const& device, Case const& what) {
  if (what.operation == Operation::jagged_row_gradients) {
    return {drawn_ids<Id>(device, {what.places()}, {.below = kTableRows, .skew = Skew::even}),
            offsets_of<Id>(device, what)};
  }
  return drawn_ids<Id>(
      device, {what.segments, what.length}, {.below = kTableRows, .skew = what.skew});
}

/// Prepares the gradients of the rows of one table, with the grouping of the ids.
template <class T, class Id>
Prepared prepare_rows(Workplace& workplace, Case const& what) {
  auto const& device = workplace.device();
  auto const bags = bags_of<Id>(device, what);
  auto const gradient = drawn_rows<T>(device, what.segments, what.width);
  return {[=] {
            auto const unique = ops::deduplicate(bags, kTableRows);
            benchmark::DoNotOptimize(
                ops::embedding_gradient(bags, unique, kTableRows, Pooling::sum, gradient));
          },
          {},
          bytes_of(what, touched_by(ops::deduplicate(bags, kTableRows), what.width))};
}

template <class T, class Id>
Prepared prepare_weights(Workplace& workplace, Case const& what) {
  auto const& device = workplace.device();
  auto const bags = bags_of<Id>(device, what);
  auto const table = drawn_rows<T>(device, kTableRows, what.width);
  auto const gradient = drawn_rows<float>(device, what.segments, what.width);
  return {[=] {
            benchmark::DoNotOptimize(
                ops::embedding_weight_gradient(table, bags, Pooling::sum, gradient));
          },
          {},
          bytes_of(what, {})};
}

template <class T, class Id>
Prepared prepare_tables(Workplace& workplace, Case const& what) {
  ManyTables<T, Id> const many(workplace.device(), what);
  return {
      [=] { benchmark::DoNotOptimize(many.gradients()); }, {}, bytes_of(what, many.touched(what))};
}

template <class T, class Id>
Prepared prepare_of_types(Workplace& workplace, Case const& what) {
  switch (what.operation) {
    case Operation::weight_gradient:
      return prepare_weights<T, Id>(workplace, what);
    case Operation::tables_gradient:
    case Operation::mixed_tables_gradient:
      return prepare_tables<T, Id>(workplace, what);
    default:
      return prepare_rows<T, Id>(workplace, what);
  }
}

}  // namespace

Prepared prepare_gradient(Workplace& workplace, Case const& what) {
  return with_row_type(what, [&]<class T>(std::type_identity<T>) {
    return with_id_type(what, [&]<class Id>(std::type_identity<Id>) {
      return prepare_of_types<T, Id>(workplace, what);
    });
  });
}

}  // namespace benchmarks::shapes
