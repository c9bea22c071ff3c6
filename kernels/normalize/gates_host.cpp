// SPDX-License-Identifier: Apache-2.0
#include "normalize/column_sums_host.hpp"
#include "normalize/gates.hpp"
#include "normalize/gates_math.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace msstream::ops::kernels {

namespace {

/// Returns the gate of each column.
template <class Of, class Args>
[[nodiscard]] std::vector<Of> gates_of(Args const& args, ColumnMoments const& moments) {
  std::vector<Of> gates;
  gates.reserve(static_cast<std::size_t>(args.width));
  for (std::int64_t column = 0; column < args.width; ++column) {
    gates.emplace_back(args.weight[args.one_weight ? 0 : column], moments, args.width, column);
  }
  return gates;
}

}  // namespace

void gate(HostStream stream, GateArgs const& args) {
  stream.run([args] {
    with_gate(args.gate, [&]<class Of>(Of const*) {
      auto const gates = gates_of<Of>(args, args.moments);
      map_columns(args.rows, args.width, [&](std::int64_t row, std::int64_t column) {
        auto const at = row * args.width + column;
        args.output[at] = gates[static_cast<std::size_t>(column)](args.input[at]);
      });
    });
  });
}

namespace {

template <class Of>
void sum_gate_gradients(GateGradientArgs const& args, double* sums) {
  auto const gates = gates_of<Of>(args, {args.statistics, nullptr, nullptr, 0.0F});
  sum_columns<kGateSums>(
      args.rows,
      args.width,
      [&](std::int64_t row, std::int64_t column, auto& of_column) {
        auto const& gate = gates[static_cast<std::size_t>(column)];
        float const x = args.input[row * args.width + column];
        float const dy = args.output_gradient[row * args.width + column];
        double const of_normal = gate.of_normal(x, dy);
        of_column[0] += static_cast<double>(gate.of_weight(x, dy));
        of_column[1] += of_normal;
        of_column[2] += of_normal * static_cast<double>(gate.normal(x));
      },
      [&](std::int64_t column, auto const& of_column) {
        for (std::size_t k = 0; k < of_column.size(); ++k) {
          sums[static_cast<std::int64_t>(k) * args.width + column] = of_column[k];
        }
      });
  if (args.weight_gradient == nullptr) {
    return;
  }
  double of_all = 0.0;
  for (std::int64_t column = 0; column < args.width; ++column) {
    of_all += sums[column];
    if (!args.one_weight) {
      args.weight_gradient[column] = static_cast<float>(sums[column]);
    }
  }
  if (args.one_weight) {
    *args.weight_gradient = static_cast<float>(of_all);
  }
}

/// The means over the rows of all ranks that a column of Gate::dice needs.
struct GateMeans {
  float of_normal = 0.0F;
  float of_product = 0.0F;
};

template <class Of>
void compute_gate_gradient(GateGradientArgs const& args, double const* sums, std::int64_t ranks) {
  auto const gates = gates_of<Of>(args, {args.statistics, nullptr, nullptr, 0.0F});
  std::vector<GateMeans> means(static_cast<std::size_t>(args.width));
  if constexpr (std::is_same_v<Of, DiceGate>) {
    for (std::int64_t column = 0; column < args.width; ++column) {
      double const rows = args.statistics[3 * args.width + column];
      auto const mean = [&](std::int64_t k) {
        return static_cast<float>(sum_over_ranks(sums, ranks, kGateSums, k, args.width, column) /
                                  rows);
      };
      means[static_cast<std::size_t>(column)] = {mean(1), mean(2)};
    }
  }
  map_columns(args.rows, args.width, [&](std::int64_t row, std::int64_t column) {
    auto const at = row * args.width + column;
    auto const& gate = gates[static_cast<std::size_t>(column)];
    float const x = args.input[at];
    float const dy = args.output_gradient[at];
    args.input_gradient[at] = gate.direct(x, dy);
    if constexpr (std::is_same_v<Of, DiceGate>) {
      auto const& mean = means[static_cast<std::size_t>(column)];
      float const through = gate.of_normal(x, dy);
      args.input_gradient[at] +=
          gate.reciprocal() * (args.mask.counts(row)
                                   ? through - mean.of_normal - gate.normal(x) * mean.of_product
                                   : through);
    }
  });
}

}  // namespace

std::size_t gate_gradient_workspace_bytes(HostStream /*stream*/,
                                          std::int64_t /*rows*/,
                                          std::int64_t width) {
  return static_cast<std::size_t>(kGateSums * width) * sizeof(double);
}
void gate_gradient(HostStream stream, GateGradientArgs const& args) {
  stream.run([args] {
    auto* const sums = static_cast<double*>(args.workspace);
    with_gate(args.gate, [&]<class Of>(Of const*) {
      sum_gate_gradients<Of>(args, sums);
      if (args.input_gradient != nullptr) {
        compute_gate_gradient<Of>(args, sums, 1);
      }
    });
  });
}

void gate_gradient_sums(HostStream stream, GateGradientArgs const& args, double* sums) {
  stream.run([args, sums] {
    with_gate(args.gate, [&]<class Of>(Of const*) { sum_gate_gradients<Of>(args, sums); });
  });
}
void gate_input_gradient(HostStream stream,
                         GateGradientArgs const& args,
                         double const* sums,
                         std::int64_t ranks) {
  stream.run([args, sums, ranks] {
    with_gate(args.gate,
              [&]<class Of>(Of const*) { compute_gate_gradient<Of>(args, sums, ranks); });
  });
}

}  // namespace msstream::ops::kernels
