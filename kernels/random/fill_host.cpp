// SPDX-License-Identifier: Apache-2.0
#include "common/parallel_rows_host.hpp"
#include "common/philox.hpp"
#include "common/real_types.hpp"
#include "random/fill.hpp"
#include "random/fill_math.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace msstream::ops::kernels {

void random_fill(HostStream stream, RandomFillArgs const& args) {
  stream.run([args] {
    with_real_type("random_fill", args.dtype, [&]<class T>(std::type_identity<T>) {
      auto* const data = static_cast<T*>(args.data);
      if (args.is_block()) {
        parallel_ranges(args.count, std::int64_t{4096}, [&](std::int64_t begin, std::int64_t end) {
          for (auto i = begin; i < end; ++i) {
            auto const element = args.of_block(i);
            auto const words = philox(fill_counter(element / 4), args.key);
            data[i] = from_float<T>(random_element(args, words.at[element % 4]));
          }
        });
        return;
      }
      auto const blocks = (args.count + 3) / 4;
      parallel_ranges(blocks, std::int64_t{1024}, [&](std::int64_t begin, std::int64_t end) {
        for (auto block = begin; block < end; ++block) {
          auto const words = philox(fill_counter(block), args.key);
          auto const first = 4 * block;
          auto const exist = std::min<std::int64_t>(4, args.count - first);
          for (std::int64_t k = 0; k < exist; ++k) {
            data[first + k] = from_float<T>(random_element(args, words.at[k]));
          }
        }
      });
    });
  });
}

double normal_probability(double z) {
  if (z > 0.0) {
    return 1.0 - normal_probability(-z);
  }
  // The bits of positive doubles ascend with their values.
  auto low = std::bit_cast<std::uint64_t>(std::numeric_limits<double>::min());
  auto high = std::bit_cast<std::uint64_t>(0.5);
  if (z <= inverse_normal(std::bit_cast<double>(low))) {
    return 0.0;
  }
  while (low < high) {
    auto const middle = low + (high - low) / 2;
    if (inverse_normal(std::bit_cast<double>(middle)) < z) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return std::bit_cast<double>(high);
}

}  // namespace msstream::ops::kernels
