// SPDX-License-Identifier: Apache-2.0
#include "common/parallel_rows_host.hpp"
#include "common/real_types.hpp"
#include "random/draw.hpp"
#include "random/draw_math.hpp"
#include "random/fill_math.hpp"

#include <algorithm>
#include <type_traits>

namespace msstream::ops::kernels {
namespace {

/// Calls write(element, words, k) for each element, the k-th of its Philox block, which gives
/// kABlock elements.
template <int kABlock, class Write>
void for_each_draw(DrawPlaces const& places, Write const& write) {
  auto const state = *places.state;
  parallel_ranges(places.samples,
                  grain_of(places.columns * std::int64_t{16}),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (auto row = begin; row < end; ++row) {
                      for (std::int64_t first = 0; first < places.columns; first += kABlock) {
                        auto const words = words_of_draw(places, state, row, first / kABlock);
                        auto const exist = static_cast<int>(
                            std::min<std::int64_t>(kABlock, places.columns - first));
                        for (int k = 0; k < exist; ++k) {
                          write(row * places.columns + first + k, words, k);
                        }
                      }
                    }
                  });
}

}  // namespace

void draw_reals(HostStream stream, DrawRealsArgs const& args) {
  stream.run([args] {
    with_real_type("draw_reals", args.fill.dtype, [&]<class T>(std::type_identity<T>) {
      auto* const data = static_cast<T*>(args.fill.data);
      for_each_draw<kRealsABlock>(
          args.places, [&](std::int64_t element, PhiloxWords const& words, int k) {
            data[element] = from_float<T>(random_element(args.fill, words.at[k]));
          });
    });
  });
}

void draw_integers(HostStream stream, DrawIntegersArgs const& args) {
  stream.run([args] {
    auto const draw_as = [&]<class T>(std::type_identity<T>) {
      auto* const data = static_cast<T*>(args.data);
      for_each_draw<kIntegersABlock>(
          args.places, [&](std::int64_t element, PhiloxWords const& words, int k) {
            data[element] = static_cast<T>(random_integer(args, words, k));
          });
    };
    if (args.dtype == DType::int32) {
      draw_as(std::type_identity<std::int32_t>{});
    } else {
      draw_as(std::type_identity<std::int64_t>{});
    }
  });
}

}  // namespace msstream::ops::kernels
