// SPDX-License-Identifier: Apache-2.0
#include "common/parallel_rows_host.hpp"
#include "common/real_types.hpp"
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

/// Calls each(sample, sums) for all samples, with the sums of the sample's columns.
template <class T, class Args, class Each>
void for_each_sample(Args const& args, Each const& each) {
  auto const elements = args.features * args.width;
  parallel_ranges(args.batch,
                  grain_of(elements * std::int64_t{sizeof(float)}),
                  [&](std::int64_t begin, std::int64_t end) {
                    std::vector<PairSum> sums(static_cast<std::size_t>(args.width));
                    for (auto sample = begin; sample < end; ++sample) {
                      sum_columns(static_cast<T const*>(args.embeddings) + sample * elements,
                                  args.features,
                                  sums);
                      each(sample, sums);
                    }
                  });
}

}  // namespace

void factorization_machine(HostStream stream, FactorizationMachineArgs const& args) {
  with_real_type("factorization_machine: a vector", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    stream.run([args] {
      for_each_sample<T>(args, [&](std::int64_t sample, std::vector<PairSum> const& sums) {
        double total = 0.0;
        for (auto const& column : sums) {
          total += column.pairs();
        }
        static_cast<T*>(args.output)[sample] = from_float<T>(static_cast<float>(total));
      });
    });
  });
}

void factorization_machine_gradient(HostStream stream,
                                    FactorizationMachineGradientArgs const& args) {
  with_real_type("factorization_machine_gradient: a vector", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    stream.run([args] {
      for_each_sample<T>(args, [&](std::int64_t sample, std::vector<PairSum> const& sums) {
        float const gradient = to_float(static_cast<T const*>(args.output_gradient)[sample]);
        auto i = sample * args.features * args.width;
        for (std::int64_t feature = 0; feature < args.features; ++feature) {
          for (auto const& column : sums) {
            float const others = static_cast<float>(column.sum()) -
                                 to_float(static_cast<T const*>(args.embeddings)[i]);
            static_cast<T*>(args.input_gradient)[i++] = from_float<T>(gradient * others);
          }
        }
      });
    });
  });
}

}  // namespace msstream::ops::kernels
