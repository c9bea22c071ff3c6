// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/existing_places.hpp"
#include "common/host_device.hpp"
#include "embedding/pooling_divisor.hpp"
#include "embedding/tables.hpp"
#include "embedding_gradient/tables_gradient.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

/// Computes the results of embedding_tables_places() for one bag of one table, in one thread, for
/// both the host and the CUDA implementation.
template <class Id, class Row>
MSSTREAM_HOST_DEVICE void tell_places(TablePlacesArgs const& args,
                                      TableDescriptor const& table,
                                      bool has_default_ids,
                                      std::int64_t number,
                                      std::int64_t bag) {
  auto const& bags = args.bags;
  auto* const rows = static_cast<Row*>(args.rows);
  auto const first_row = args.first_rows[number];
  auto const bag_of_all = static_cast<std::int32_t>(number * bags.batch + bag);
  bool const exists = bag < existing_bags(bags);
  auto const places = exists ? places_of<Id>(bags, table, number, bag) : PlaceRange{0, 0};
  bool const is_weighted = bags.weights != nullptr;
  PoolingDivisor divisor;
  for (auto place = places.begin; place < places.end; ++place) {
    auto const id = static_cast<std::int64_t>(static_cast<Id const*>(bags.ids)[place]);
    bool const is_valid = is_in_range(id, table.rows);
    rows[place] = static_cast<Row>(is_valid ? first_row + id : -1);
    args.bags_of_places[place] = bag_of_all;
    if (is_valid) {
      ++divisor.valid;
      if (is_weighted) {
        divisor.add_weight(table.pooling, bags.weights[place]);
      }
    }
  }
  if (args.factors != nullptr) {
    float const by = divides(table.pooling) ? divisor.get(table.pooling, is_weighted) : 1.0F;
    for (auto place = places.begin; place < places.end; ++place) {
      float const weight = is_weighted ? bags.weights[place] : 1.0F;
      args.factors[place] = by == 0.0F ? 0.0F : factor_from(weight, by);
      if (by == 0.0F) {
        rows[place] = -1;  // with a factor of 0, an infinite gradient would give NaN
      }
    }
  }
  if (has_default_ids) {
    auto const place = bags.capacity + bag_of_all;
    bool const has_row = exists && divisor.valid == 0 && is_in_range(table.default_id, table.rows);
    rows[place] = static_cast<Row>(has_row ? first_row + table.default_id : -1);
    args.bags_of_places[place] = bag_of_all;
    if (args.factors != nullptr) {
      args.factors[place] = 1.0F;
    }
  }
}

/// Returns whether a lookup may have positions that belong to no existing bag.
[[nodiscard]] constexpr bool has_unused_places(TablesLookupArgs const& bags) {
  return bags.offsets != nullptr || bags.batch_count != nullptr;
}

/// Calls function(Id{}, Row{}) with the types of the ids and of the rows.
template <class Function>
void with_place_types(TablePlacesArgs const& args, Function const& function) {
  bool const wide_ids = args.bags.id_dtype == DType::int64;
  if (args.row_dtype == DType::int64) {
    wide_ids ? function(std::int64_t{}, std::int64_t{}) : function(std::int32_t{}, std::int64_t{});
  } else {
    wide_ids ? function(std::int64_t{}, std::int32_t{}) : function(std::int32_t{}, std::int32_t{});
  }
}

}  // namespace msstream::ops::kernels
