// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "metrics/metric_math.hpp"
#include "metrics/metric_update.hpp"

#include <cstdint>

/// The arithmetic of metrics of lists in which some items are relevant. Items of equal score have
/// the mean over all their orders (McSherry and Najork 2008).
namespace msstream::ops::kernels {

/// The place of an item of a list among the others, and how many of them are relevant. The item
/// itself is among those of equal score.
struct ListPlace {
  std::int64_t above = 0;
  std::int64_t equal = 0;
  std::int64_t relevant_above = 0;
  std::int64_t relevant_equal = 0;
  std::int64_t relevant_equal_before = 0;  ///< with a smaller index

  MSSTREAM_HOST_DEVICE void meet(float other, float own, bool is_relevant, bool is_before) {
    bool const is_above = other > own;
    bool const is_equal = other == own;
    above += is_above ? 1 : 0;
    equal += is_equal ? 1 : 0;
    relevant_above += is_above && is_relevant ? 1 : 0;
    relevant_equal += is_equal && is_relevant ? 1 : 0;
    relevant_equal_before += is_equal && is_relevant && is_before ? 1 : 0;
  }
};

/// Returns the mean of 1, or of 1 / rank, for the first relevant item of a list, over the orders of
/// the items of equal score; 0 beyond the first `places` ranks.
MSSTREAM_HOST_DEVICE inline double first_relevant(ListPlace const& place,
                                                  std::int64_t places,
                                                  bool is_reciprocal) {
  auto const last = place.above + place.equal - place.relevant_equal + 1;
  if (!is_reciprocal && last <= places) {
    return 1.0;
  }
  double sum = 0.0;
  // The probability that the first relevant item has the rank.
  double probability = static_cast<double>(place.relevant_equal) / static_cast<double>(place.equal);
  for (auto rank = place.above + 1; rank <= last && rank <= places; ++rank) {
    double const merit = is_reciprocal ? 1.0 / static_cast<double>(rank) : 1.0;
    sum = plus(sum, times(probability, merit));
    auto const behind = place.above + place.equal - rank;
    probability = behind > 0 ? times(probability,
                                     static_cast<double>(behind - place.relevant_equal + 1) /
                                         static_cast<double>(behind))
                             : 0.0;
  }
  return sum;
}

/// Returns the mean of the precision at the rank of a relevant item, over the orders of the items
/// of equal score; 0 beyond the first `places` ranks.
MSSTREAM_HOST_DEVICE inline double precision_at(ListPlace const& place, std::int64_t places) {
  double const share = place.equal > 1 ? static_cast<double>(place.relevant_equal - 1) /
                                             static_cast<double>(place.equal - 1)
                                       : 0.0;
  auto const last = place.above + place.equal;
  double sum = 0.0;
  for (auto rank = place.above + 1; rank <= last && rank <= places; ++rank) {
    auto const before = static_cast<double>(rank - place.above - 1);
    double const relevant =
        plus(static_cast<double>(place.relevant_above + 1), times(before, share));
    sum = plus(sum, relevant / static_cast<double>(rank));
  }
  return sum / static_cast<double>(place.equal);
}

/// Returns what a relevant item adds to the merit of its list, before merit_of_list().
MSSTREAM_HOST_DEVICE inline double merit_of_item(MetricUpdate const& update,
                                                 ListPlace const& place) {
  auto const places = update.places;
  switch (update.list_term) {
    case ListTerm::recall: {
      auto const last = place.above + place.equal;
      auto const counted = (last < places ? last : places) - place.above;
      return counted > 0 ? static_cast<double>(counted) / static_cast<double>(place.equal) : 0.0;
    }
    case ListTerm::average_precision:
      return precision_at(place, places);
    case ListTerm::hit:
    case ListTerm::reciprocal_rank:
      // One item adds the term of the list.
      return place.relevant_above == 0 && place.relevant_equal_before == 0
                 ? first_relevant(place, places, update.list_term == ListTerm::reciprocal_rank)
                 : 0.0;
  }
  return 0.0;
}

/// Returns the merit of a list, in [0, 1], from the sum of those of its items.
MSSTREAM_HOST_DEVICE inline double merit_of_list(MetricUpdate const& update,
                                                 double sum,
                                                 double relevant) {
  auto const places = static_cast<double>(update.places);
  double const divisor = update.list_term == ListTerm::recall ? relevant
                         : update.list_term == ListTerm::average_precision
                             ? (relevant < places ? relevant : places)
                             : 1.0;
  double const merit = sum / divisor;
  return merit < 1.0 ? merit : 1.0;
}

MSSTREAM_HOST_DEVICE inline bool is_label(float label) {
  return label >= 0.0F && label <= 1.0F;
}
MSSTREAM_HOST_DEVICE inline bool is_relevant(float label) {
  return label > 0.5F;
}

}  // namespace msstream::ops::kernels
