// SPDX-License-Identifier: Apache-2.0
#include "common/column_pieces_host.hpp"
#include "common/existing_places.hpp"
#include "common/long_sum.hpp"
#include "common/real_types.hpp"
#include "common/row_prefetch_host.hpp"
#include "embedding/checks.hpp"
#include "embedding/lookup.hpp"
#include "embedding/parallel_bags_host.hpp"
#include "embedding/pooling_divisor.hpp"
#include "ids/bag_report_host.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace msstream::ops::kernels {
namespace {

/// The memory in which the host sums output rows of a lookup: the output itself if it holds floats,
/// otherwise a buffer of floats for one row, which is then converted to the output's type.
class HostOutput {
 public:
  explicit HostOutput(LookupArgs const& args) : args_(args) {
    if (args.output_dtype != DType::float32) {
      row_.resize(static_cast<std::size_t>(args.width));
    }
  }

  /// Calls make(columns [width]), which computes an output row in floats, and stores the row in the
  /// type of the output.
  template <class Make>
  void write_row(std::int64_t row, Make const& make) {
    bool const holds_floats = args_.output_dtype == DType::float32;
    auto const first = row * args_.width;
    make(holds_floats ? static_cast<float*>(args_.output) + first : row_.data());
    if (args_.output_dtype == DType::float16) {
      narrow_to(static_cast<float16*>(args_.output) + first);
    } else if (args_.output_dtype == DType::bfloat16) {
      narrow_to(static_cast<bfloat16*>(args_.output) + first);
    }
  }

 private:
  template <class Out>
  void narrow_to(Out* into) const {
    std::transform(row_.begin(), row_.end(), into, from_float<Out>);
  }

  LookupArgs const& args_;
  std::vector<float> row_;
};

/// A lookup on the host: the bags, and the pooling of the rows of a bag into one.
template <class T, class Id>
class HostLookup {
 public:
  HostLookup(LookupArgs const& args, IdBags<Id> const& bags)
      : args_(args),
        bags_(bags.looked_at()),
        table_(static_cast<T const*>(args.table)),
        existing_(bags.existing()) {}

  /// Writes all output rows of the lookup.
  void write() const {
    auto const bytes = args_.width * static_cast<std::int64_t>(sizeof(T));
    auto const write_some = [this](auto begin, auto end) { this->write(begin, end); };
    if (args_.pooling == Pooling::none) {
      parallel_ranges(output_rows(args_), grain_of(2 * bytes), write_some);
    } else {
      parallel_bags(bags_, grain_of(bytes), write_some);
      write(existing_, bags_.bags);
    }
  }

 private:
  using Ahead = RowPrefetch<T, Id>;

  /// Writes the output rows [first, last), independently of all other rows.
  void write(std::int64_t first, std::int64_t last) const {
    std::uint64_t bad = 0;
    if (args_.pooling == Pooling::none) {
      auto const places = bags_.existing_places();
      Ahead const ahead = rows_ahead(std::min(last, places.end));
      bad = write_pieces(first, last, ahead, [&](auto row, auto piece, auto const& a) {
        auto const begin = std::clamp(row, places.begin, places.end);
        auto const end = std::clamp(row + 1, places.begin, places.end);
        return scale({begin, end}, piece, a);
      });
    } else {
      auto const last_bag = std::min(last, existing_) - 1;
      Ahead const ahead = rows_ahead(last_bag >= first ? bags_.places_of(last_bag).end : 0);
      bad = write_pieces(first, last, ahead, [&](auto row, auto piece, auto const& a) {
        auto const places = row < existing_ ? bags_.places_of(row) : PlaceRange{0, 0};
        auto const bad_ids = args_.pooling == Pooling::max ? most(places, row, piece, a)
                             : bags_.weights != nullptr    ? sum<true>(places, row, piece, a)
                                                           : sum<false>(places, row, piece, a);
        return bad_ids + (row < existing_ && bags_.is_bad(row) ? tell_bad(row) : 0);
      });
    }
    count_out_of_range(args_.report, bad);
  }

  /// Reports a bag with invalid offsets. Returns 1, because such a bag counts as one bad id.
  [[nodiscard]] std::uint64_t tell_bad(std::int64_t bag) const {
    spring_trap(args_.report, bags_.bag_offsets(), bag);
    return 1;
  }

  /// A piece of neighbouring columns of an output row, and the memory for their floats.
  template <std::int64_t Count>
  struct Piece {
    std::int64_t column;
    float* floats;
  };

  template <std::int64_t Count>
  using Sums = std::array<float, static_cast<std::size_t>(Count)>;

  /// Calls make(row, Piece, RowPrefetch) for all columns of the output rows [first, last). Returns
  /// the number of bad ids.
  template <class Make>
  std::uint64_t write_pieces(std::int64_t first,
                             std::int64_t last,
                             Ahead const& ahead,
                             Make const& make) const {
    Ahead const nothing_ahead = rows_ahead(0);
    HostOutput output(args_);
    std::uint64_t bad = 0;
    for (auto row = first; row < last; ++row) {
      output.write_row(row, [&](float* floats) {
        for_each_piece(args_.width, [&](std::int64_t column, auto count) {
          Piece<count()> const piece{column, floats + column};
          auto const bad_here = make(row, piece, column == 0 ? ahead : nothing_ahead);
          bad += column == 0 ? bad_here : 0;
        });
      });
    }
    return bad;
  }

  [[nodiscard]] Ahead rows_ahead(std::int64_t end) const {
    return {table_, args_.rows, args_.width, bags_.ids, end};
  }

  /// Calls visit(row of the table, position of the id) for each valid id at `places`. Returns the
  /// number of invalid ids.
  template <class Visit>
  std::uint64_t for_each_row(PlaceRange places, Ahead const& ahead, Visit const& visit) const {
    std::uint64_t bad = 0;
    std::int64_t bad_place = 0;
    for (auto place = places.begin; place < places.end; ++place) {
      ahead.ahead_of(place);
      std::int64_t const id = bags_.ids[place];
      if (is_in_range(id, args_.rows)) {
        visit(table_ + id * args_.width, place);
      } else {
        bad_place = bad == 0 ? place : bad_place;
        ++bad;
      }
    }
    // Bad ids are reported after the loop, because an atomic operation in the loop would keep the
    // sums out of registers.
    if (bad > 0) {
      spring_trap(args_.report, bags_.ids[bad_place], args_.rows);
    }
    return bad;
  }

  /// Returns the row of the default id, which is used for a bag without a valid id; null if there
  /// is none.
  [[nodiscard]] T const* default_row(std::int64_t bag) const {
    return bag < existing_ && is_in_range(bags_.default_id, args_.rows)
               ? table_ + bags_.default_id * args_.width
               : nullptr;
  }

  /// Adds the rows of the ids at `places` to the sums. Returns the number of bad ids.
  template <bool IsWeighted, std::int64_t Count>
  [[gnu::always_inline]] std::uint64_t add_to(Sums<Count>& sums,
                                              PoolingDivisor& divisor,
                                              PlaceRange places,
                                              Piece<Count> piece,
                                              Ahead const& ahead) const {
    return for_each_row(places, ahead, [&](T const* row, std::int64_t place) {
      ++divisor.valid;
      if constexpr (IsWeighted) {
        float const weight = bags_.weights[place];
        divisor.add_weight(args_.pooling, weight);
        for_each_column<Count>(
            [&](std::int64_t c) { sums[c] += weight * to_float(row[piece.column + c]); });
      } else {
        for_each_column<Count>([&](std::int64_t c) { sums[c] += to_float(row[piece.column + c]); });
      }
    });
  }

  /// Computes the output columns of a bag from its sums.
  template <bool IsWeighted, std::int64_t Count>
  [[gnu::always_inline]] void finish(Sums<Count> const& sums,
                                     PoolingDivisor const& divisor,
                                     std::int64_t bag,
                                     Piece<Count> piece) const {
    if (T const* const row = divisor.valid == 0 ? default_row(bag) : nullptr; row != nullptr) {
      for_each_column<Count>(
          [&](std::int64_t c) { piece.floats[c] = 0.0F + to_float(row[piece.column + c]); });
      return;
    }
    float const by = divisor.valid == 0       ? 0.0F
                     : divides(args_.pooling) ? divisor.get(args_.pooling, IsWeighted)
                                              : 1.0F;
    // If the divisor is 0, the result is 0, whatever the sums are.
    for_each_column<Count>(
        [&](std::int64_t c) { piece.floats[c] = by == 0.0F ? 0.0F : sums[c] / by; });
  }

  // sum() is not inlined, because the sums stay in registers only if no other code sees their
  // addresses.
  template <bool IsWeighted, std::int64_t Count>
  [[gnu::noinline]] std::uint64_t sum(PlaceRange places,
                                      std::int64_t bag,
                                      Piece<Count> piece,
                                      Ahead const& ahead) const {
    if (places.end - places.begin > kRowsOfPart) {
      return sum_in_parts<IsWeighted, Count>(places, bag, piece, ahead);
    }
    Sums<Count> sums{};
    PoolingDivisor divisor;
    auto const bad = add_to<IsWeighted, Count>(sums, divisor, places, piece, ahead);
    finish<IsWeighted, Count>(sums, divisor, bag, piece);
    return bad;
  }

  /// Sums a bag of more than kRowsOfPart positions in float32 parts and a float64 total, as
  /// common/long_sum.hpp describes.
  template <bool IsWeighted, std::int64_t Count>
  [[gnu::noinline]] std::uint64_t sum_in_parts(PlaceRange places,
                                               std::int64_t bag,
                                               Piece<Count> piece,
                                               Ahead const& ahead) const {
    std::array<double, static_cast<std::size_t>(Count)> whole{};
    PoolingDivisor divisor;
    std::uint64_t bad = 0;
    for (auto begin = places.begin; begin < places.end; begin += kRowsOfPart) {
      auto const end = std::min(begin + kRowsOfPart, places.end);
      Sums<Count> part{};
      bad += add_to<IsWeighted, Count>(part, divisor, {begin, end}, piece, ahead);
      for_each_column<Count>([&](std::int64_t c) { whole[c] += static_cast<double>(part[c]); });
    }
    Sums<Count> sums;
    for_each_column<Count>([&](std::int64_t c) { sums[c] = static_cast<float>(whole[c]); });
    finish<IsWeighted, Count>(sums, divisor, bag, piece);
    return bad;
  }

  /// Writes the output row of one id if nothing is pooled. The row is not added to 0, which would
  /// turn -0 into +0.
  template <std::int64_t Count>
  [[gnu::noinline]] std::uint64_t scale(PlaceRange places,
                                        Piece<Count> piece,
                                        Ahead const& ahead) const {
    std::array<float, Count> scaled{};
    auto const bad = for_each_row(places, ahead, [&](T const* row, std::int64_t place) {
      float const weight = bags_.weight(place);
      for_each_column<Count>(
          [&](std::int64_t c) { scaled[c] = weight * to_float(row[piece.column + c]); });
    });
    std::copy_n(scaled.data(), Count, piece.floats);
    return bad;
  }

  template <std::int64_t Count>
  [[gnu::noinline]] std::uint64_t most(PlaceRange places,
                                       std::int64_t bag,
                                       Piece<Count> piece,
                                       Ahead const& ahead) const {
    std::array<float, Count> largest{};
    std::array<std::int32_t, Count> places_of_largest;
    places_of_largest.fill(-1);
    bool is_first = true;
    auto const bad = for_each_row(places, ahead, [&](T const* row, std::int64_t place) {
      for_each_column<Count>([&](std::int64_t c) {
        // The comparison of maxima has no branches, so that the loop processes several columns at
        // once.
        auto const value = to_float(row[piece.column + c]);
        bool const is_first_nan = (value != value) & (largest[c] == largest[c]);
        bool const is_larger = is_first | (value > largest[c]) | is_first_nan;
        largest[c] = is_larger ? value : largest[c];
        places_of_largest[c] = is_larger ? static_cast<std::int32_t>(place) : places_of_largest[c];
      });
      is_first = false;
    });
    if (T const* const row = is_first ? default_row(bag) : nullptr; row != nullptr) {
      for_each_column<Count>([&](std::int64_t c) { largest[c] = to_float(row[piece.column + c]); });
      places_of_largest.fill(static_cast<std::int32_t>(bags_.capacity + bag));
    }
    std::copy_n(largest.data(), Count, piece.floats);
    if (args_.argmax != nullptr) {
      std::copy_n(places_of_largest.data(), Count, args_.argmax + bag * args_.width + piece.column);
    }
    return bad;
  }

  LookupArgs const& args_;
  IdBags<Id> bags_;
  T const* table_;
  std::int64_t existing_;
};

}  // namespace

void embedding_lookup(HostStream stream, LookupArgs const& args) {
  require_lookup(args);
  with_id_type("embedding_lookup", args.bags, [&](auto const& bags) {
    with_real_type("embedding_lookup: a table", args.table_dtype, [&](auto type) {
      stream.run([args, bags] {
        using Id = std::remove_cv_t<std::remove_pointer_t<decltype(bags.ids)>>;
        HostLookup<typename decltype(type)::type, Id>(args, bags).write();
      });
    });
  });
}

}  // namespace msstream::ops::kernels
