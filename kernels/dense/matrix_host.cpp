// SPDX-License-Identifier: Apache-2.0
#include "dense/matrix.hpp"

#include <algorithm>

namespace msstream::ops::kernels {

void transpose(HostStream stream, TransposeArgs const& args) {
  stream.run([args] {
    // The matrix is transposed in tiles, so that the cache lines that one row loads are still
    // cached for the rows below it.
    constexpr std::int64_t kTile = 32;
    auto const [input, output, batch, rows, columns] = args;
    for (std::int64_t b = 0; b < batch; ++b) {
      float const* const from = input + b * rows * columns;
      float* const to = output + b * rows * columns;
      for (std::int64_t top = 0; top < rows; top += kTile) {
        for (std::int64_t left = 0; left < columns; left += kTile) {
          for (auto row = top; row < std::min(top + kTile, rows); ++row) {
            for (auto column = left; column < std::min(left + kTile, columns); ++column) {
              to[column * rows + row] = from[row * columns + column];
            }
          }
        }
      }
    }
  });
}

void add_identity(HostStream stream, AddIdentityArgs const& args) {
  stream.run([args] {
    if (args.output != args.input) {
      std::copy_n(args.input, args.width * args.width, args.output);
    }
    for (std::int64_t row = 0; row < args.width; ++row) {
      args.output[row * (args.width + 1)] += args.factor;
    }
  });
}

}  // namespace msstream::ops::kernels
