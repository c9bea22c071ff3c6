// SPDX-License-Identifier: Apache-2.0
#include "dense/interaction_host.hpp"

#include "common/parallel_rows_host.hpp"
#include "dense/interaction.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace msstream::ops::kernels {

namespace {

template <class Args>
[[nodiscard]] float const* vector_of(Args const& args, std::int64_t sample, std::int64_t vector) {
  return vector == 0 ? args.dense + sample * args.width
                     : args.embeddings + (sample * args.features + vector - 1) * args.width;
}

/// Adds factor * row to `sums`, element by element.
void add_multiple(float* sums, float factor, float const* row, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    sums[i] += factor * row[i];
  }
}

/// Calls add(k) for each k in [0, terms), which adds a term to `part` [count], and sets `total`
/// [count] to the sum: that of the parts of at most kColumnsOfPart terms.
template <class Add>
void add_in_parts(std::vector<float>& part,
                  float* total,
                  std::int64_t count,
                  std::int64_t terms,
                  Add const& add) {
  std::fill_n(total, count, 0.0F);
  for (std::int64_t begin = 0; begin < terms; begin += kColumnsOfPart) {
    std::fill_n(part.begin(), count, 0.0F);
    auto const end = std::min<std::int64_t>(begin + kColumnsOfPart, terms);
    for (auto k = begin; k < end; ++k) {
      add(k);
    }
    add_multiple(total, 1.0F, part.data(), count);
  }
}

}  // namespace

void compute_dot_interaction(InteractionArgs const& args) {
  auto const vectors = args.features + 1;
  auto const output_width = args.width + pairs_of(vectors);
  parallel_ranges(
      args.batch,
      grain_of(vectors * args.width * std::int64_t{sizeof(float)}),
      [&](std::int64_t begin, std::int64_t end) {
        // The products of vector i with all vectors before it are computed together, from the
        // transposed vectors, so that the loop over them vectorises.
        std::vector<float> columns(static_cast<std::size_t>(vectors * args.width));
        std::vector<float> part(static_cast<std::size_t>(vectors));
        for (auto sample = begin; sample < end; ++sample) {
          for (std::int64_t v = 0; v < vectors; ++v) {
            auto const* const vector = vector_of(args, sample, v);
            for (std::int64_t c = 0; c < args.width; ++c) {
              columns[static_cast<std::size_t>(c * vectors + v)] = vector[c];
            }
          }
          auto* const output = args.output + sample * output_width;
          std::copy_n(vector_of(args, sample, 0), args.width, output);
          for (std::int64_t i = 1; i < vectors; ++i) {
            auto const* const vector = vector_of(args, sample, i);
            add_in_parts(
                part, output + args.width + pair_number(i, 0), i, args.width, [&](auto column) {
                  add_multiple(part.data(), vector[column], columns.data() + column * vectors, i);
                });
          }
        }
      });
}

void dot_interaction(HostStream stream, InteractionArgs const& args) {
  stream.run([args] { compute_dot_interaction(args); });
}

void compute_dot_interaction_gradient(InteractionGradientArgs const& args) {
  auto const vectors = args.features + 1;
  auto const output_width = args.width + pairs_of(vectors);
  parallel_ranges(
      args.batch,
      grain_of(vectors * args.width * std::int64_t{sizeof(float)}),
      [&](std::int64_t begin, std::int64_t end) {
        std::vector<float> part(static_cast<std::size_t>(args.width));
        for (auto sample = begin; sample < end; ++sample) {
          auto const* const gradient = args.output_gradient + sample * output_width;
          for (std::int64_t i = 0; i < vectors; ++i) {
            float* const of_all = i == 0 ? args.dense_gradient : args.embeddings_gradient;
            if (of_all == nullptr) {
              continue;
            }
            auto* const total =
                of_all + (i == 0 ? sample : sample * args.features + i - 1) * args.width;
            add_in_parts(part, total, args.width, vectors, [&](auto j) {
              if (j != i) {
                auto const pair = i > j ? pair_number(i, j) : pair_number(j, i);
                add_multiple(part.data(),
                             gradient[args.width + pair],
                             vector_of(args, sample, j),
                             args.width);
              }
            });
            if (i == 0) {
              add_multiple(total, 1.0F, gradient, args.width);
            }
          }
        }
      });
}

void dot_interaction_gradient(HostStream stream, InteractionGradientArgs const& args) {
  stream.run([args] { compute_dot_interaction_gradient(args); });
}

}  // namespace msstream::ops::kernels
