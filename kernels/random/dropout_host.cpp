// SPDX-License-Identifier: Apache-2.0
#include "common/parallel_rows_host.hpp"
#include "common/philox.hpp"
#include "common/real_types.hpp"
#include "random/dropout.hpp"

#include <msstream/base/dtype.hpp>

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {

void set_random(HostStream stream, RandomState const& value, RandomState* state) {
  stream.run([value, state] { *state = value; });
}

void advance_random(HostStream stream, RandomState* state) {
  stream.run([state] { ++state->step; });
}

namespace {

template <class T>
void dropout_of(DropoutArgs const& args) {
  auto const state = *args.state;
  if (args.drawn != nullptr) {
    *args.drawn = state;
  }
  auto const key = philox_key(state.seed, args.stream);
  auto const drop_row = [&](std::int64_t row) {
    auto const* const input = static_cast<T const*>(args.input) + row * args.columns;
    auto* const output = static_cast<T*>(args.output) + row * args.columns;
    for (std::int64_t first = 0; first < args.columns; first += 4) {
      auto const words =
          philox(dropout_counter(first / 4, args.first_sample + row, state.step), key);
      auto const exist = std::min<std::int64_t>(4, args.columns - first);
      for (std::int64_t k = 0; k < exist; ++k) {
        output[first + k] = from_float<T>(
            words.at[k] >= args.threshold ? to_float(input[first + k]) * args.scale : 0.0F);
      }
    }
  };
  parallel_ranges(args.samples,
                  grain_of(args.columns * std::int64_t{16}),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (auto row = begin; row < end; ++row) {
                      drop_row(row);
                    }
                  });
}

}  // namespace

void dropout(HostStream stream, DropoutArgs const& args) {
  require_real_type("dropout: a tensor", args.dtype);
  stream.run([args] {
    with_real_type("dropout: a tensor", args.dtype, [&](auto type) {
      dropout_of<typename decltype(type)::type>(args);
    });
  });
}

}  // namespace msstream::ops::kernels
