// SPDX-License-Identifier: Apache-2.0
#include "bag_layout.hpp"
#include "embedding_checks.hpp"
#include "id_report_host.hpp"

#include <msstream/ops/kernels/embedding.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <type_traits>

namespace msstream::ops::kernels {
namespace {

/// Columns that are summed at once, in registers.
constexpr std::int64_t kPiece = 32;

template <std::int64_t Count>
using Columns = std::integral_constant<std::int64_t, Count>;

/// Calls function(first column, their number) for all of a row's columns: as long as it can with a
/// number that is known when compiling, so that sums stay in registers.
template <class Function>
void for_each_piece(std::int64_t width, Function const& function) {
  std::int64_t column = 0;
  for (; column + kPiece <= width; column += kPiece) {
    function(column, Columns<kPiece>{});
  }
  auto const take = [&](auto count) {
    if (column + count <= width) {
      function(column, count);
      column += count;
    }
  };
  take(Columns<16>{});
  take(Columns<8>{});
  if (width == 1) {
    function(column, Columns<1>{});
  } else if (column < width) {
    function(column, width - column);
  }
}

/// What an array for a piece has to hold.
template <class Count>
constexpr std::size_t kMostColumns = kPiece;
template <std::int64_t Count>
constexpr std::size_t kMostColumns<Columns<Count>> = Count;

/// The bags of a lookup and what the rows of one are summed to.
template <class T, class Id, class Out>
class HostLookup {
 public:
  HostLookup(LookupArgs const& args, IdBags<Id> const& bags)
      : args_(args),
        bags_(bags),
        table_(static_cast<T const*>(args.table)),
        output_(static_cast<Out*>(args.output)),
        pools_(args.pooling != Pooling::none),
        existing_(bags.existing()),
        existing_places_(pools_ ? PlaceRange{0, 0} : bags.existing_places()) {}

  /// Writes the output rows [first, last), which need no others; returns how many ids were bad.
  std::uint64_t write(std::int64_t first, std::int64_t last) const {
    std::uint64_t bad = 0;
    for (auto row = first; row < last; ++row) {
      auto const bag = bag_of(row);
      bad += bag.bad;
      if (args_.pooling == Pooling::max) {
        for_each_piece(args_.width, [&](auto column, auto count) { most(bag, column, count); });
      } else if (!pools_) {
        for_each_piece(args_.width, [&](auto column, auto count) { scale(bag, column, count); });
      } else {
        for_each_piece(args_.width, [&](auto column, auto count) { sum(bag, column, count); });
      }
    }
    return bad;
  }

 private:
  /// One output row: its places, and what all columns have in common.
  struct Bag {
    std::int64_t row;
    PlaceRange places;
    bool takes_default;
    float divisor;
    std::uint64_t bad;
  };

  [[nodiscard]] PlaceRange places_of(std::int64_t row) const {
    if (!pools_) {
      return row >= existing_places_.begin && row < existing_places_.end ? PlaceRange{row, row + 1}
                                                                         : PlaceRange{0, 0};
    }
    return row < existing_ ? bags_.places_of(row) : PlaceRange{0, 0};
  }

  [[nodiscard]] Bag bag_of(std::int64_t row) const {
    Bag bag{row, places_of(row), false, 0.0F, 0};
    std::int64_t valid = 0;
    float weights = 0.0F;
    float squares = 0.0F;
    for (auto place = bag.places.begin; place < bag.places.end; ++place) {
      if (is_in_range(bags_.ids[place], args_.rows)) {
        auto const weight = bags_.weight(place);
        // Rows lie anywhere: all of a bag are on their way before the first is waited for.
        __builtin_prefetch(table_ + bags_.ids[place] * args_.width);
        ++valid;
        weights += weight;
        squares += weight * weight;
      } else if (bag.bad++ == 0) {
        spring_trap(args_.report, bags_.ids[place], args_.rows);
      }
    }
    if (bags_.weights == nullptr) {
      weights = squares = static_cast<float>(valid);
    }
    bag.takes_default =
        pools_ && valid == 0 && row < existing_ && is_in_range(bags_.default_id, args_.rows);
    if (bag.takes_default) {
      bag.divisor = 1.0F;
    } else if (valid > 0) {
      bag.divisor = args_.pooling == Pooling::mean    ? weights
                    : args_.pooling == Pooling::sqrtn ? std::sqrt(squares)
                                                      : 1.0F;
    }
    return bag;
  }

  /// Calls visit(row of the table, weight, place) for each row of a bag; at one place, so that the
  /// compiler puts it there.
  template <class Visit>
  void for_each_row(Bag const& bag, Visit const& visit) const {
    auto const places_end = bags_.capacity + bag.row + 1;
    auto const places = bag.takes_default ? PlaceRange{places_end - 1, places_end} : bag.places;
    for (auto place = places.begin; place < places.end; ++place) {
      std::int64_t const id = bag.takes_default ? bags_.default_id : bags_.ids[place];
      if (is_in_range(id, args_.rows)) {
        visit(table_ + id * args_.width, bags_.weight(place), place);
      }
    }
  }

  [[nodiscard]] Out* output(Bag const& bag, std::int64_t column) const {
    return output_ + bag.row * args_.width + column;
  }

  // What is summed stays in registers only if nothing else ever sees its address.
  template <class Count>
  void sum(Bag const& bag, std::int64_t column, Count count) const {
    std::array<float, kMostColumns<Count>> sums{};
    for_each_row(bag, [&](T const* row, float weight, std::int64_t) {
      for (std::int64_t c = 0; c < count; ++c) {
        sums[c] += weight * to_float(row[column + c]);
      }
    });
    // Without a divisor the sums are no result, whatever they are.
    for (std::int64_t c = 0; c < count; ++c) {
      output(bag, column)[c] = from_float<Out>(bag.divisor == 0.0F ? 0.0F : sums[c] / bag.divisor);
    }
  }

  /// Where nothing is pooled: not added to 0, which would make +0 of -0.
  template <class Count>
  void scale(Bag const& bag, std::int64_t column, Count count) const {
    std::array<float, kMostColumns<Count>> scaled{};
    for_each_row(bag, [&](T const* row, float weight, std::int64_t) {
      for (std::int64_t c = 0; c < count; ++c) {
        scaled[c] = weight * to_float(row[column + c]);
      }
    });
    for (std::int64_t c = 0; c < count; ++c) {
      output(bag, column)[c] = from_float<Out>(scaled[c]);
    }
  }

  template <class Count>
  void most(Bag const& bag, std::int64_t column, Count count) const {
    std::array<float, kMostColumns<Count>> largest{};
    std::array<std::int32_t, kMostColumns<Count>> places;
    places.fill(-1);
    bool is_first = true;
    for_each_row(bag, [&](T const* row, float, std::int64_t place) {
      for (std::int64_t c = 0; c < count; ++c) {
        auto const value = to_float(row[column + c]);
        bool const is_first_nan = std::isnan(value) && !std::isnan(largest[c]);
        if (is_first || value > largest[c] || is_first_nan) {
          largest[c] = value;
          places[c] = static_cast<std::int32_t>(place);
        }
      }
      is_first = false;
    });
    for (std::int64_t c = 0; c < count; ++c) {
      output(bag, column)[c] = from_float<Out>(largest[c]);
    }
    if (args_.argmax != nullptr) {
      std::copy_n(places.data(),
                  static_cast<std::int64_t>(count),
                  args_.argmax + bag.row * args_.width + column);
    }
  }

  LookupArgs const& args_;
  IdBags<Id> const& bags_;
  T const* table_;
  Out* output_;
  bool pools_;
  std::int64_t existing_;
  PlaceRange existing_places_;  ///< where nothing is pooled
};

/// Calls function(a T) for the real type that `dtype` names.
template <class Function>
void with_real_type(DType dtype, Function const& function) {
  if (dtype == DType::float32) {
    function(float{});
  } else if (dtype == DType::float16) {
    function(float16{});
  } else {
    function(bfloat16{});
  }
}

}  // namespace

void embedding_lookup(HostStream stream, LookupArgs const& args) {
  require_lookup(args);
  with_id_type("embedding_lookup", args.bags, [&](auto const& bags) {
    with_real_type(args.table_dtype, [&](auto element) {
      with_real_type(args.output_dtype, [&](auto out) {
        stream.run([args, bags] {
          using Id = std::remove_cv_t<std::remove_pointer_t<decltype(bags.ids)>>;
          HostLookup<decltype(element), Id, decltype(out)> const lookup(args, bags);
          count_out_of_range(args.report, lookup.write(0, output_rows(args)));
        });
      });
    });
  });
}

}  // namespace msstream::ops::kernels
