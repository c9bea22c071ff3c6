// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/column_count_host.hpp"
#include "common/existing_places.hpp"
#include "common/real_types.hpp"
#include "embedding/parallel_bags_host.hpp"
#include "embedding/pooling_divisor.hpp"
#include "embedding_gradient/gradients.hpp"
#include "ids/bag_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace msstream::ops::kernels {

/// Sums the gradients of table rows on the host, over the positions of a lookup.
template <class T, class Id>
class HostRowGradients {
 public:
  HostRowGradients(RowGradientArgs const& args, IdBags<Id> const& bags)
      : args_(args), bags_(bags.looked_at()) {
    if (divides(args.pooling)) {
      divisors_.resize(static_cast<std::size_t>(bags_.existing()));
      parallel_bags(bags_, grain_of(sizeof(Id)), [this](std::int64_t begin, std::int64_t end) {
        for (auto bag = begin; bag < end; ++bag) {
          divisors_[static_cast<std::size_t>(bag)] = divisor_of(bag);
        }
      });
    }
  }

  /// Calls `function(begin, end)` on several threads, for ranges that together are all unique ids.
  template <class Function>
  void for_ranges(Function const& function) const {
    auto const bytes = args_.width * static_cast<std::int64_t>(sizeof(T));
    parallel_rows(args_.starts, *args_.unique_count, grain_of(bytes), function);
  }

  /// Computes the gradient [width] of the row of the u-th unique id.
  template <class Columns>
  void sum(Columns columns, std::int64_t u, float* sums) const {
    auto const begin = args_.starts[u];
    auto const end = args_.starts[u + 1];
    auto const* const gradient = static_cast<T const*>(args_.output_gradient);
    auto const width = columns.count();
    if (args_.pooling == Pooling::max) {
      RowTotals totals(sums, width);
      for (auto k = begin; k < end; ++k) {
        totals.begin_row();
        auto const place = args_.positions[k];
        auto const bag = bags_.bag_of(place);
        if (bag < 0) {
          continue;
        }
        auto const from = bag * width;
        for (std::int64_t c = 0; c < width; ++c) {
          sums[c] += args_.argmax[from + c] == place ? to_float(gradient[from + c]) : 0.0F;
        }
      }
      totals.finish();
      return;
    }
    add_rows(columns, sums, begin, end, [&](std::int64_t k, auto const& add_row) {
      std::int64_t const place = args_.positions[k];
      auto const row = args_.pooling == Pooling::none ? place : bags_.bag_of(place);
      if (row < 0) {
        return;
      }
      bool const has_divisor = !divisors_.empty() && place < bags_.capacity;
      float const divisor = has_divisor ? divisors_[static_cast<std::size_t>(row)] : 1.0F;
      if (divisor != 0.0F) {
        add_row(gradient + row * width, factor_from(bags_.weight(place), divisor));
      }
    });
  }

 private:
  [[nodiscard]] float divisor_of(std::int64_t bag) const {
    auto const places = bags_.places_of(bag);
    PoolingDivisor divisor;
    for (auto place = places.begin; place < places.end; ++place) {
      if (is_in_range(bags_.ids[place], args_.rows)) {
        ++divisor.valid;
        divisor.add_weight(args_.pooling, bags_.weight(place));
      }
    }
    return divisor.get(args_.pooling, bags_.weights != nullptr);
  }

  RowGradientArgs const& args_;
  IdBags<Id> bags_;
  std::vector<float> divisors_;  ///< divisor of each bag; empty if all are 1
};

/// Calls function(std::type_identity<HostRowGradients<…>>, bags) with the types of the ids and the
/// output gradient. Throws std::invalid_argument for unsupported types.
template <class Function>
void with_row_gradients(RowGradientArgs const& args, Function const& function) {
  with_id_type("embedding_gradient", args.bags, [&]<class Id>(IdBags<Id> const& bags) {
    with_real_type("embedding_gradient: an output gradient", args.gradient_dtype, [&](auto type) {
      using Gradients = HostRowGradients<typename decltype(type)::type, Id>;
      function(std::type_identity<Gradients>{}, bags);
    });
  });
}

}  // namespace msstream::ops::kernels
