// SPDX-License-Identifier: Apache-2.0
#include "common/existing_places.hpp"
#include "common/real_types.hpp"
#include "embedding_gradient/gradients.hpp"
#include "ids/bag_layout.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

/// Returns the inner product of a table row and a gradient. Adds 32 sums, each over every 32nd
/// column, which the compiler vectorises, and then folds the sums in halves.
template <class T>
float product(T const* row, float const* gradient, std::int64_t width) {
  constexpr std::size_t kSums = 32;
  std::array<float, kSums> sums{};
  for (std::int64_t c = 0; c < width; ++c) {
    sums[static_cast<std::size_t>(c) % kSums] += to_float(row[c]) * gradient[c];
  }
  for (auto half = kSums / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) {
      sums[i] += sums[i + half];
    }
  }
  return sums[0];
}

template <class T, class Id>
void weight_gradient(WeightGradientArgs const& args, IdBags<Id> const& all_bags) {
  auto const bags = all_bags.looked_at();
  auto const existing = bags.existing_places();
  for (std::int64_t place = 0; place < bags.capacity; ++place) {
    bool const exists = place >= existing.begin && place < existing.end;
    auto const id = exists ? static_cast<std::int64_t>(bags.ids[place]) : std::int64_t{-1};
    float sum = 0.0F;
    auto const output = !is_in_range(id, args.rows)     ? std::int64_t{-1}
                        : args.pooling == Pooling::none ? place
                                                        : bags.bag_of(place);
    if (output >= 0) {
      sum = product(static_cast<T const*>(args.table) + id * args.width,
                    args.output_gradient + output * args.width,
                    args.width);
    }
    args.weight_gradient[place] = sum;
  }
}

}  // namespace

void embedding_weight_gradient(HostStream stream, WeightGradientArgs const& args) {
  with_id_type("embedding_weight_gradient", args.bags, [&](auto const& bags) {
    with_real_type("embedding_weight_gradient: a table", args.table_dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      stream.run([args, bags] { weight_gradient<T>(args, bags); });
    });
  });
}

}  // namespace msstream::ops::kernels
