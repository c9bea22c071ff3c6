// SPDX-License-Identifier: Apache-2.0
#include "normalize/column_sums_host.hpp"
#include "normalize/gates.hpp"
#include "normalize/gates_math.hpp"

#include <array>
#include <cstddef>
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

std::size_t gate_gradient_workspace_bytes(HostStream /*stream*/,
                                          std::int64_t /*rows*/,
                                          std::int64_t /*width*/) {
  return 0;
}
void gate_gradient(HostStream stream, GateGradientArgs const& args) {
  stream.run([args] {
    with_gate(args.gate, [&]<class Of>(Of const*) {
      auto const gates = gates_of<Of>(args, {args.statistics, nullptr, nullptr, 0.0F});
      std::vector<std::array<double, 3>> totals(static_cast<std::size_t>(args.width));
      sum_columns<3>(
          args.rows,
          args.width,
          [&](std::int64_t row, std::int64_t column, auto& sums) {
            auto const& of_column = gates[static_cast<std::size_t>(column)];
            float const x = args.input[row * args.width + column];
            float const dy = args.output_gradient[row * args.width + column];
            double const of_normal = of_column.of_normal(x, dy);
            sums[0] += static_cast<double>(of_column.of_weight(x, dy));
            sums[1] += of_normal;
            sums[2] += of_normal * static_cast<double>(of_column.normal(x));
          },
          [&](std::int64_t column, auto const& sums) {
            totals[static_cast<std::size_t>(column)] = sums;
          });
      if (args.weight_gradient != nullptr) {
        double of_all = 0.0;
        for (std::int64_t column = 0; column < args.width; ++column) {
          of_all += totals[static_cast<std::size_t>(column)][0];
          if (!args.one_weight) {
            args.weight_gradient[column] =
                static_cast<float>(totals[static_cast<std::size_t>(column)][0]);
          }
        }
        if (args.one_weight) {
          *args.weight_gradient = static_cast<float>(of_all);
        }
      }
      if (args.input_gradient == nullptr) {
        return;
      }
      map_columns(args.rows, args.width, [&](std::int64_t row, std::int64_t column) {
        auto const at = row * args.width + column;
        auto const& of_column = gates[static_cast<std::size_t>(column)];
        auto const& sums = totals[static_cast<std::size_t>(column)];
        float const x = args.input[at];
        float const dy = args.output_gradient[at];
        args.input_gradient[at] = of_column.direct(x, dy);
        if constexpr (std::is_same_v<Of, DiceGate>) {
          double const rows = args.statistics[3 * args.width + column];
          float const through = of_column.of_normal(x, dy);
          args.input_gradient[at] +=
              of_column.reciprocal() *
              (args.mask.counts(row) ? through - static_cast<float>(sums[1] / rows) -
                                           of_column.normal(x) * static_cast<float>(sums[2] / rows)
                                     : through);
        }
      });
    });
  });
}

}  // namespace msstream::ops::kernels
