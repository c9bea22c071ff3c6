// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding_gradient/gradients.hpp"
#include "kernels/kernel_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace msstream::ops::kernels::testing {

using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<std::int32_t>;

inline constexpr Pooling kPoolings[] = {
    Pooling::sum, Pooling::mean, Pooling::sqrtn, Pooling::max, Pooling::none};

/// The arguments of a lookup on the host whose gradient is tested. Only the first `existing` bags
/// exist.
struct GradientCase {
  Integers ids = {};
  Integers offsets = {};  ///< empty if the hotness is fixed
  std::int64_t hotness = 1;
  std::int64_t bags = 0;
  std::int64_t existing = 0;
  std::int64_t rows = 50;
  std::int64_t width = 16;
  Pooling pooling = Pooling::sum;
  std::vector<float> weights = {};  ///< empty if there are no weights
  std::int64_t default_id = -1;

  [[nodiscard]] std::int64_t capacity() const { return static_cast<std::int64_t>(ids.size()); }
  [[nodiscard]] std::int64_t places() const { return capacity() + (default_id >= 0 ? bags : 0); }
  [[nodiscard]] std::int64_t output_rows() const {
    return pooling == Pooling::none ? capacity() : bags;
  }
  [[nodiscard]] std::int64_t begin(std::int64_t bag) const {
    return offsets.empty() ? bag * hotness : offsets[static_cast<std::size_t>(bag)];
  }
  [[nodiscard]] std::int64_t end(std::int64_t bag) const { return begin(bag + 1); }
  [[nodiscard]] bool has(std::int64_t place) const {
    auto const id = ids[static_cast<std::size_t>(place)];
    return id >= 0 && id < rows;
  }
  [[nodiscard]] double weight(std::int64_t place) const {
    return weights.empty() ? 1.0 : static_cast<double>(weights[static_cast<std::size_t>(place)]);
  }
  /// Returns the number by which the pooling divides a bag's sum.
  [[nodiscard]] double divisor(std::int64_t bag) const {
    double total = 0.0;
    for (auto place = begin(bag); place < end(bag); ++place) {
      if (has(place)) {
        total += pooling == Pooling::sqrtn ? weight(place) * weight(place) : weight(place);
      }
    }
    return pooling == Pooling::mean ? total : pooling == Pooling::sqrtn ? std::sqrt(total) : 1.0;
  }
  /// Calls visit(id, position, output row, factor) for all positions with a valid id, then for
  /// those of default ids.
  template <class Visit>
  void for_each_place(Visit const& visit) const {
    Integers defaults;
    for (std::int64_t bag = 0; bag < existing; ++bag) {
      auto const over = divisor(bag);
      bool is_empty = true;
      for (auto place = begin(bag); place < end(bag); ++place) {
        if (has(place)) {
          is_empty = false;
          visit(ids[static_cast<std::size_t>(place)],
                place,
                pooling == Pooling::none ? place : bag,
                over == 0.0 ? 0.0 : weight(place) / over);
        }
      }
      if (is_empty && default_id >= 0) {
        defaults.push_back(bag);
      }
    }
    for (auto const bag : defaults) {
      visit(default_id, capacity() + bag, bag, 1.0);
    }
  }

  static GradientCase fixed(Integers ids, std::int64_t hotness) {
    GradientCase some;
    some.bags = some.existing = static_cast<std::int64_t>(ids.size()) / hotness;
    some.ids = std::move(ids);
    some.hotness = hotness;
    return some;
  }
  static GradientCase jagged(Integers ids, Integers offsets) {
    GradientCase some;
    some.bags = some.existing = static_cast<std::int64_t>(offsets.size()) - 1;
    some.ids = std::move(ids);
    some.offsets = std::move(offsets);
    return some;
  }
};

/// The ids of a GradientCase, grouped as deduplicate() groups them.
struct Groups {
  Integers ids;
  Numbers starts;
  Numbers positions;
  Numbers ranks;
  std::int64_t uniques;

  explicit Groups(GradientCase const& some) {
    std::map<std::int64_t, Integers> groups;
    some.for_each_place([&](std::int64_t id, std::int64_t place, std::int64_t, double) {
      groups[id].push_back(place);
    });
    starts.push_back(0);
    for (auto const& [id, places] : groups) {
      ids.push_back(id);
      ranks.insert(ranks.end(), places.size(), static_cast<std::int32_t>(starts.size()) - 1);
      positions.insert(positions.end(), places.begin(), places.end());
      starts.push_back(static_cast<std::int32_t>(positions.size()));
    }
    uniques = static_cast<std::int64_t>(groups.size());
    auto const places = static_cast<std::size_t>(some.places());
    ids.resize(places, -1);
    positions.resize(places, -1);
    ranks.resize(places, -1);
    starts.resize(places + 1, -1);
  }
};

/// The arguments of a gradient in the memory of a machine. Their addresses are valid while the
/// object exists.
template <class Id>
struct UploadedCase {
  std::int64_t offset;  ///< elements before the output gradient
  DType gradient_dtype;
  GradientCase some;
  Buffer<Id> ids;
  Buffer<Id> offsets;
  Buffer<std::int64_t> bag_count;
  Buffer<float> weights;
  Buffer<std::int64_t> unique_ids;
  Buffer<std::int32_t> starts;
  Buffer<std::int32_t> positions;
  Buffer<std::int32_t> ranks;
  Buffer<std::int64_t> unique_count;
  Buffer<std::int32_t> argmax;
  Buffer<std::uint8_t> output_gradient;

  /// Returns the arguments of embedding_row_gradients() without row_gradients and workspace.
  [[nodiscard]] RowGradientArgs args() const {
    return {.bags = {.ids = ids.data(),
                     .id_dtype = dtype_of<Id>,
                     .bags = some.bags,
                     .capacity = some.capacity(),
                     .hotness = some.hotness,
                     .offsets = some.offsets.empty() ? nullptr : offsets.data(),
                     .bag_count = bag_count.data(),
                     .weights = some.weights.empty() ? nullptr : weights.data(),
                     .default_id = some.default_id},
            .rows = some.rows,
            .pooling = some.pooling,
            .starts = starts.data(),
            .positions = positions.data(),
            .ranks = ranks.data(),
            .unique_count = unique_count.data(),
            .output_gradient = output_gradient.data() +
                               offset * static_cast<std::int64_t>(bytes_of(gradient_dtype)),
            .gradient_dtype = gradient_dtype,
            .width = some.width,
            .row_gradients = nullptr,
            .workspace = nullptr,
            .argmax = some.pooling == Pooling::max ? argmax.data() : nullptr};
  }
};

/// A fixture that uploads the arguments of gradients and computes the expected gradients.
template <class Stream>
class GradientTest : public KernelTest<Stream> {
 protected:
  /// Returns jagged bags of 0 to `longest` random ids. One in ten ids is outside the table, and
  /// `spare` positions at the end are unused.
  GradientCase random_bags(std::int64_t bags, std::int64_t longest, std::int64_t spare = 0) {
    Integers offsets{0};
    for (auto const length : this->random.integers(bags, 0, longest)) {
      offsets.push_back(offsets.back() + length);
    }
    auto const capacity = offsets.back() + spare;
    return GradientCase::jagged(this->random.integers(capacity, -2, 52), std::move(offsets));
  }

  /// Returns an argmax for max pooling: for each output row and column, the position of one of the
  /// bag's valid ids, or -1. Empty for other poolings.
  Numbers random_argmax(GradientCase const& some) {
    if (some.pooling != Pooling::max) {
      return {};
    }
    std::map<std::int64_t, Numbers> places;
    some.for_each_place([&](std::int64_t, std::int64_t place, std::int64_t row, double) {
      places[row].push_back(static_cast<std::int32_t>(place));
    });
    Numbers argmax(static_cast<std::size_t>(some.bags * some.width), -1);
    for (auto const& [row, from] : places) {
      for (std::int64_t c = 0; c < some.width; ++c) {
        auto const which = this->random.integer(0, static_cast<std::int64_t>(from.size()) - 1);
        argmax[static_cast<std::size_t>(row * some.width + c)] =
            from[static_cast<std::size_t>(which)];
      }
    }
    return argmax;
  }

  template <class T>
  std::vector<T> random_gradient(GradientCase const& some) {
    std::vector<T> gradient;
    for (auto const value : this->random.reals(some.output_rows() * some.width)) {
      gradient.push_back(from_float<T>(value));
    }
    return gradient;
  }

  template <class Id, class T>
  UploadedCase<Id> upload_case(GradientCase const& some,
                               std::vector<T> const& gradient,
                               Numbers const& argmax,
                               std::int64_t offset = 0) {
    auto const narrow = [](Integers const& values) {
      return std::vector<Id>(values.begin(), values.end());
    };
    Groups const groups(some);
    std::vector<T> shifted(static_cast<std::size_t>(offset), from_float<T>(0.0F));
    shifted.insert(shifted.end(), gradient.begin(), gradient.end());
    auto const* const bytes = reinterpret_cast<std::uint8_t const*>(shifted.data());
    return {offset,
            dtype_of<T>,
            some,
            this->upload(narrow(some.ids)),
            this->upload(narrow(some.offsets)),
            this->scalar(some.existing),
            this->upload(some.weights),
            this->upload(groups.ids),
            this->upload(groups.starts),
            this->upload(groups.positions),
            this->upload(groups.ranks),
            this->scalar(groups.uniques),
            this->upload(argmax),
            this->upload(std::vector<std::uint8_t>(bytes, bytes + shifted.size() * sizeof(T)))};
  }
};

/// Row gradients in double: the sums, and the bounds of their errors in float (sums of magnitudes
/// and numbers of addends).
struct ReferenceGradients {
  std::map<std::int64_t, std::vector<double>> sums;
  std::map<std::int64_t, std::vector<double>> magnitudes;
  std::map<std::int64_t, double> addends;

  template <class T>
  ReferenceGradients(GradientCase const& some,
                     std::vector<T> const& gradient,
                     Numbers const& argmax) {
    auto const columns = static_cast<std::size_t>(some.width);
    some.for_each_place([&](std::int64_t id, std::int64_t place, std::int64_t row, double factor) {
      auto& sum = sums.try_emplace(id, columns, 0.0).first->second;
      auto& magnitude = magnitudes.try_emplace(id, columns, 0.0).first->second;
      addends[id] += 1.0;
      for (std::size_t c = 0; c < columns; ++c) {
        auto const from = static_cast<std::size_t>(row) * columns + c;
        bool const adds = factor != 0.0 && (some.pooling != Pooling::max || argmax[from] == place);
        double const value = adds ? factor * static_cast<double>(to_float(gradient[from])) : 0.0;
        sum[c] += value;
        magnitude[c] += std::abs(value);
      }
    });
  }
};

}  // namespace msstream::ops::kernels::testing
