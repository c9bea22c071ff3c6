// SPDX-License-Identifier: Apache-2.0
#include "common/parallel_rows_host.hpp"
#include "normalize/l2_normalize.hpp"

#include <cmath>

namespace msstream::ops::kernels {

void l2_normalize(HostStream stream, L2NormalizeArgs const& args) {
  stream.run([args] {
    auto const grain = grain_of(args.width * std::int64_t{sizeof(float)});
    parallel_ranges(args.rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for (auto row = begin; row < end; ++row) {
        auto const* const input = args.input + row * args.width;
        auto* const output = args.output + row * args.width;
        double squares = 0.0;
        for (std::int64_t column = 0; column < args.width; ++column) {
          double const x = input[column];
          squares += x * x;
        }
        double const norm = std::sqrt(squares);
        double const least = args.epsilon;
        double const factor = 1.0 / (norm < least ? least : norm);
        for (std::int64_t column = 0; column < args.width; ++column) {
          output[column] = static_cast<float>(static_cast<double>(input[column]) * factor);
        }
      }
    });
  });
}

void l2_normalize_gradient(HostStream stream, L2NormalizeGradientArgs const& args) {
  stream.run([args] {
    auto const grain = grain_of(args.width * std::int64_t{sizeof(float)});
    parallel_ranges(args.rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for (auto row = begin; row < end; ++row) {
        auto const first = row * args.width;
        double squares = 0.0;
        double products = 0.0;
        for (auto at = first; at < first + args.width; ++at) {
          double const x = args.input[at];
          squares += x * x;
          products += x * static_cast<double>(args.output_gradient[at]);
        }
        double const norm = std::sqrt(squares);
        double const least = args.epsilon;
        bool const is_short = norm <= least;
        double const factor = 1.0 / (is_short ? least : norm);
        double const share = is_short ? 0.0 : products / squares;
        for (auto at = first; at < first + args.width; ++at) {
          args.input_gradient[at] =
              static_cast<float>((static_cast<double>(args.output_gradient[at]) -
                                  static_cast<double>(args.input[at]) * share) *
                                 factor);
        }
      }
    });
  });
}

}  // namespace msstream::ops::kernels
