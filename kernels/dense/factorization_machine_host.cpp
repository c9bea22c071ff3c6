// SPDX-License-Identifier: Apache-2.0
#include "common/parallel_rows_host.hpp"
#include "common/real_types.hpp"
#include "common/round_once.hpp"
#include "dense/factorization_machine.hpp"

#include <msstream/base/dtype.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::ops::kernels {
namespace {

/// Sets sums[c] to the sums of column c of a sample's vectors [features, width].
template <class T>
void sum_columns(T const* vectors, std::int64_t features, std::vector<PairSum>& sums) {
  auto const width = sums.size();
  std::fill(sums.begin(), sums.end(), PairSum());
  for (std::int64_t feature = 0; feature < features; ++feature) {
    T const* const vector = vectors + feature * static_cast<std::int64_t>(width);
    for (std::size_t c = 0; c < width; ++c) {
      sums[c].add(to_float(vector[c]));
    }
    if ((feature + 1) % kTermsOfPart == 0 || feature + 1 == features) {
      for (auto& sum : sums) {
        sum.fold();
      }
    }
  }
}

/// Calls each(sample, sums) for all samples, with room for a sum of each column.
template <class Sum, class Args, class Each>
void for_each_sample(Args const& args, Each const& each) {
  parallel_ranges(args.batch,
                  grain_of(args.features * args.width * std::int64_t{sizeof(float)}),
                  [&](std::int64_t begin, std::int64_t end) {
                    std::vector<Sum> sums(static_cast<std::size_t>(args.width));
                    for (auto sample = begin; sample < end; ++sample) {
                      each(sample, sums);
                    }
                  });
}

}  // namespace

void factorization_machine(HostStream stream, FactorizationMachineArgs const& args) {
  with_real_type("factorization_machine: a vector", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    stream.run([args] {
      for_each_sample<PairSum>(args, [&](std::int64_t sample, std::vector<PairSum>& sums) {
        sum_columns(static_cast<T const*>(args.embeddings) + sample * args.features * args.width,
                    args.features,
                    sums);
        double total = 0.0;
        for (auto const& column : sums) {
          total += column.pairs();
        }
        static_cast<T*>(args.output)[sample] = round_once<T>(total);
      });
    });
  });
}

void factorization_machine_gradient(HostStream stream,
                                    FactorizationMachineGradientArgs const& args) {
  with_real_type("factorization_machine_gradient: a vector", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    stream.run([args] {
      for_each_sample<double>(args, [&](std::int64_t sample, std::vector<double>& sums) {
        auto const first = sample * args.features * args.width;
        auto const* const vectors = static_cast<T const*>(args.embeddings) + first;
        auto* const gradients = static_cast<T*>(args.input_gradient) + first;
        double const gradient = to_float(static_cast<T const*>(args.output_gradient)[sample]);
        std::fill(sums.begin(), sums.end(), 0.0);
        auto const for_each_element = [&](auto const& element) {
          std::int64_t i = 0;
          for (std::int64_t feature = 0; feature < args.features; ++feature) {
            for (auto& sum : sums) {
              element(i, sum);
              ++i;
            }
          }
        };
        for_each_element(
            [&](std::int64_t i, double& sum) { sum += static_cast<double>(to_float(vectors[i])); });
        for_each_element([&](std::int64_t i, double const& sum) {
          gradients[i] =
              round_once<T>(gradient * (sum - static_cast<double>(to_float(vectors[i]))));
        });
      });
    });
  });
}

}  // namespace msstream::ops::kernels
