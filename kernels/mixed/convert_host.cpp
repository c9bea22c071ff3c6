// SPDX-License-Identifier: Apache-2.0
#include "common/parallel_rows_host.hpp"
#include "common/real_types.hpp"
#include "mixed/convert.hpp"

#include <vector>

namespace msstream::ops::kernels {

void convert(HostStream stream, std::span<Conversion const> arrays, DType from, DType to) {
  with_real_type("convert: the source", from, [&](auto source) {
    with_real_type("convert: the result", to, [&](auto result) {
      using From = typename decltype(source)::type;
      using To = typename decltype(result)::type;
      stream.run([all = std::vector<Conversion>(arrays.begin(), arrays.end())] {
        for (auto const& array : all) {
          auto const* const input = static_cast<From const*>(array.from);
          auto* const output = static_cast<To*>(array.to);
          parallel_ranges(
              array.count, grain_of(sizeof(From)), [&](std::int64_t begin, std::int64_t end) {
                for (auto i = begin; i < end; ++i) {
                  output[i] = from_float<To>(to_float(input[i]));
                }
              });
        }
      });
    });
  });
}

void add_halves(HostStream stream,
                std::span<void const* const> inputs,
                void* output,
                std::int64_t count,
                DType dtype) {
  with_real_type("add_halves: the terms", dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    stream.run([terms = std::vector<void const*>(inputs.begin(), inputs.end()), output, count] {
      for (std::int64_t i = 0; i < count; ++i) {
        auto const term = [&](std::size_t k) {
          return to_float(static_cast<T const*>(terms[k])[i]);
        };
        auto sum = term(0);
        std::size_t since_rounded = 1;
        for (std::size_t k = 1; k < terms.size(); ++k) {
          if (since_rounded == kHalvesPerLaunch) {
            sum = to_float(from_float<T>(sum));
            since_rounded = 1;
          }
          sum += term(k);
          ++since_rounded;
        }
        static_cast<T*>(output)[i] = from_float<T>(sum);
      }
    });
  });
}

}  // namespace msstream::ops::kernels
